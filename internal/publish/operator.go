package publish

import (
	"bytes"
	"context"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
)

// operator has the settings of git's global configuration about the person who publishes.
type operator map[string][]string

// readOperator reads git's global configuration, which is the operator's own. No
// repository is read.
func readOperator(ctx context.Context, r *runner, env []string) (operator, error) {
	c := call{args: []string{"config", "--global", "--includes", "--null", "--get-regexp", "."}}
	cmd := r.command(ctx, c)
	cmd.Env = append(cmd.Env[:len(r.env):len(r.env)], "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1")
	for _, kv := range env {
		if strings.HasPrefix(kv, "GIT_CONFIG_GLOBAL=") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	out, messages := &boundedBuffer{limit: maxOutput}, &boundedBuffer{limit: maxMessage, drop: true}
	cmd.Stdout, cmd.Stderr = out, messages
	o := operator{}
	if err := cmd.Run(); exitCode(err) == 1 {
		return o, nil // there is no configuration
	} else if err != nil {
		return nil, api.Failf(api.CodePublish, &gitError{"config", messages.String(), err}, "read git's global configuration")
	}
	for entry := range bytes.SplitSeq(out.Bytes(), []byte{0}) {
		key, value, ok := strings.Cut(string(entry), "\n")
		if key == "" {
			continue
		}
		if !ok {
			value = "true"
		}
		o[key] = append(o[key], value)
	}
	return o, nil
}

// value returns the value of a key that counts: the last one.
func (o operator) value(key string) string {
	values := o[key]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// with returns all settings whose keys begin with one of the prefixes.
func (o operator) with(prefixes ...string) []setting {
	var out []setting
	for key, values := range o {
		for _, prefix := range prefixes {
			if !strings.HasPrefix(key, prefix) {
				continue
			}
			for _, v := range values {
				out = append(out, setting{key, v})
			}
			break
		}
	}
	return out
}

// identity returns the variables by which git knows the author of a commit.
func (o operator) identity() ([]string, error) {
	name, email := o.value("user.name"), o.value("user.email")
	if name == "" || email == "" {
		return nil, api.Refusef(api.CodePublish, "`git config --global user.name NAME` and `git config --global user.email ADDRESS`",
			"git's global configuration has no user.name or no user.email")
	}
	return []string{
		"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + email, "GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + email,
	}, nil
}
