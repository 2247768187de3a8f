package publish

import (
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/forkcell/forkcell/internal/quote"
)

// kinds lists the services whose API is known.
func kinds() []string { return []string{"github", "gitlab", "forgejo", "gitea"} }

func (f Forge) check() error {
	switch {
	case f.Host == "":
		return errors.New("a forge has no host")
	case !slices.Contains(kinds(), f.Kind):
		return fmt.Errorf("kind %s of %s is none of github, gitlab, forgejo, gitea", quote.Arg(f.Kind), quote.Arg(f.Host))
	case f.API == "":
		return nil
	}
	u, err := url.Parse(f.API)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
		return fmt.Errorf("api of %s is not an https URL", quote.Arg(f.Host))
	}
	return nil
}
