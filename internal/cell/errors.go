package cell

import (
	"fmt"
)

// counted returns a number with its noun in the singular or the plural.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
