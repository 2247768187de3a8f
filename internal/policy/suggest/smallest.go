package suggest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/evidence/event"
)

// Smallest returns the smallest addition to a policy that would have allowed what an
// event says was denied. It is "" if no addition would, or none is known.
func Smallest(rec event.Record) string {
	var d deniedEvent
	if rec.Action != event.ActionDenied || json.Unmarshal(rec.Raw, &d) != nil {
		return ""
	}
	switch d.Class {
	case event.NetworkActivity:
		if d.Activity != int(event.Refused) {
			return "" // the message of a connection that was cut says how it was inspected
		}
		return d.Message // who denied it knows the rules that it came by
	case event.HTTPActivity:
		if strings.HasPrefix(d.Reason, "credential: ") {
			return "" // the message says what to do on the host
		}
		return d.Message
	case event.DNSActivity:
		if !strings.HasPrefix(d.Reason, noName) || isService(d.Query.Host) {
			return ""
		}
		// Where the program would have connected to is not known. HTTPS is most likely.
		return fmt.Sprintf(`network_policies: {NAME: {endpoints: [{host: %s, port: 443, protocol: rest, access: read-only}], binaries: [{path: "/**"}]}}`, strconv.QuoteToASCII(d.Query.Host))
	case event.DetectionFinding:
		if call, ok := strings.CutPrefix(d.Rule.Name, "seccomp: "); ok {
			return "process: {allow_syscalls: [" + call + "]}"
		}
		if limit, ok := strings.CutPrefix(d.Rule.Name, "limits."); ok {
			return "limits: {" + limit + ": MORE}"
		}
	default:
	}
	return ""
}
