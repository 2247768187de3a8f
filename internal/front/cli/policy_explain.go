package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/text/quote"
)

type explainOptions struct {
	path    string
	host    string
	scheme  string
	syscall string
	method  string
	urlPath string
	binary  string
	header  []string
	body    string
}

func newPolicyExplain(s *frame) *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use:   "explain CELL|FILE [--path P | --host H:PORT | --syscall S]",
		Short: "Show what a policy decides, by which rule and why",
		Long: `Show what a policy decides about a path, a host or a system call, by which rule and
why. The exit code is 0 for any answer. Without a question it names the flags that a
run under the policy needs: grants of the operator.

The policy is a file if one of that name exists, else that of a cell. Only a cell has
a workspace and --ro paths. Requests are decided as the proxy decides them, with the
method, path, headers and body that are given. Rules about content need the
Content-Type too. What depends on the destination's address is not part of the
answer.`,
		Example: `  forkcell policy explain policy.yaml
  forkcell policy explain demo --path /etc/shadow
  forkcell policy explain demo --syscall unshare
  forkcell policy explain policy.yaml --host api.github.com:443 --method GET --url-path /repos/a/b
  forkcell policy explain policy.yaml --host mcp.example.com:443 --method POST --url-path /mcp --header Content-Type:application/json --body call.json`,
		Args:              positional("CELL|FILE"),
		ValidArgsFunction: s.completeCell,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			q, err := o.question(cmd, s.streams.In)
			if err != nil {
				return err
			}
			ref, err := s.policyRef(verb(cmd), args[0])
			if err != nil {
				return err
			}
			return s.engine(cmd.Context(), Read, func(ctx context.Context, e Engine) error {
				return runPolicyExplain(ctx, s, e, ref, q)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.path, "path", "", "an absolute `PATH` in the cell")
	f.StringVar(&o.host, "host", "", "a connection to `HOST:PORT`")
	f.StringVar(&o.scheme, "scheme", "", "with --host: a request in plain HTTP (`http`) or in TLS (https); default: what the endpoint uses")
	f.StringVar(&o.method, "method", "", "with --host: a request with this `METHOD`")
	f.StringVar(&o.urlPath, "url-path", "", "with --host: a request for this `PATH`, as it is sent, with its query")
	f.StringArrayVar(&o.header, "header", nil, "with --host: a request with the header `NAME:VALUE` (repeatable)")
	f.StringVar(&o.body, "body", "", "with --host: a request with the content of `FILE`, - for stdin, /dev/null for none")
	f.StringVar(&o.binary, "binary", "", "with --host: by the executable at this `PATH`")
	f.StringVar(&o.syscall, "syscall", "", "the system call of this `NAME`")
	return cmd
}

func (o explainOptions) question(cmd *cobra.Command, stdin io.Reader) (engine.PolicyQuestion, error) {
	var q engine.PolicyQuestion
	if err := exclusive(cmd, "path", "host", "syscall"); err != nil {
		return q, err
	}
	if o.host == "" {
		for _, name := range []string{"scheme", "method", "url-path", "binary", "header", "body"} {
			if cmd.Flags().Changed(name) {
				return q, usageError("usage: "+usageLine(cmd), "%s: --%s goes with --host", verb(cmd), name)
			}
		}
	}
	switch {
	case o.path != "":
		q.Path = o.path
	case o.syscall != "":
		q.Syscall = o.syscall
	case o.host != "":
		host, port, err := policy.SplitHost(o.host)
		if err != nil {
			return q, usageError("write --host HOST:PORT", "%s: bad value %s for --host: %v", verb(cmd), quote.Arg(o.host), err)
		}
		if o.scheme != "" && o.scheme != policy.HTTP && o.scheme != policy.HTTPS {
			return q, usageError("write --scheme http or --scheme https", "%s: bad value %s for --scheme", verb(cmd), quote.Arg(o.scheme))
		}
		q.Request = &policy.Request{Host: host, Port: port, Scheme: o.scheme, Binary: o.binary, Method: o.method}
		q.Request.Path, q.RawQuery, _ = strings.Cut(o.urlPath, "?")
		q.Header, err = parseHeader(o.header)
		if err != nil {
			return q, usageError("write --header NAME:VALUE", "%s: --header: %v", verb(cmd), err)
		}
		if cmd.Flags().Changed("body") {
			if q.Body, err = o.content(stdin); err != nil {
				return q, usageError("give a file, or - for stdin", "%s: --body %s: %v", verb(cmd), quote.Path(o.body), err)
			}
		}
	}
	return q, nil
}

// maxBodyFile is more than a policy can let the proxy read, so that a body that is
// too long is refused in the same way as by the proxy.
const maxBodyFile = 65 << 20

// content returns the body of the request in question. An empty body is not nil.
func (o explainOptions) content(stdin io.Reader) ([]byte, error) {
	if o.body != "-" {
		body, err := readBounded(o.body, maxBodyFile)
		return append([]byte{}, body...), err
	}
	body, err := io.ReadAll(io.LimitReader(stdin, maxBodyFile+1))
	if err == nil && len(body) > maxBodyFile {
		err = fmt.Errorf("larger than %s", size(maxBodyFile))
	}
	return body, err
}

func parseHeader(lines []string) (map[string][]string, error) {
	header := map[string][]string{}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" {
			return nil, errors.New("no name in " + quote.Arg(line))
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		header[name] = append(header[name], strings.TrimSpace(value))
	}
	return header, nil
}

func runPolicyExplain(ctx context.Context, s *frame, e policyKeeper, ref engine.PolicyRef, q engine.PolicyQuestion) error {
	x, err := e.ExplainPolicy(ctx, ref, q)
	if err != nil {
		return err
	}
	return s.emit(x, func(p *page) {
		word := ""
		switch {
		case q.Path == "" && q.Syscall == "" && q.Request == nil: // about flags
		case x.Allowed:
			word = p.word("allowed")
		default:
			word = p.word("denied")
		}
		p.pairs("decision", word, "access", x.Access, "rule", quote.Line(x.Rule), "reason", quote.Line(x.Reason), "needs", quote.Line(x.Needs))
	})
}
