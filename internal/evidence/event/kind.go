package event

import (
	"fmt"
	"strings"
)

// Kind is what filters select records by, besides time and cell.
type Kind struct {
	Class  Class
	Action Action
}

// FormatKinds returns kinds as [ParseKinds] reads them, such as "6002:allowed 4001:denied".
func FormatKinds(kinds []Kind) string {
	words := make([]string, len(kinds))
	for i, k := range kinds {
		words[i] = fmt.Sprintf("%d:%s", int(k.Class), k.Action)
	}
	return strings.Join(words, " ")
}

// ParseKinds reads what [FormatKinds] has written.
func ParseKinds(text string) ([]Kind, error) {
	var kinds []Kind
	for _, word := range strings.Fields(text) {
		var k Kind
		if _, err := fmt.Sscanf(word, "%d:%s", &k.Class, &k.Action); err != nil || k.Action != ActionAllowed && k.Action != ActionDenied {
			return nil, fmt.Errorf("event: %q is no kind of events", word)
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}
