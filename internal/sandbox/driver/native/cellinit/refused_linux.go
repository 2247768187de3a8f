package cellinit

import (
	"bytes"
	"strconv"
	"strings"
)

// refusedAttempts counts what was sent in this network namespace and had nowhere
// to go: packets without a route, and questions to a port without a server,
// which is where those for names go in a cell without a network. It is for a
// message to people; what cannot be read counts as nothing.
func refusedAttempts() int64 { return RefusedAttempts("/proc/self/net") }

// RefusedAttempts counts the same for the network namespace of a directory of /proc.
func RefusedAttempts(net string) int64 {
	four, _ := readFile(net + "/snmp")
	six, _ := readFile(net + "/snmp6")
	return counter4(four, "Ip:", "OutNoRoutes") + counter4(four, "Udp:", "NoPorts") +
		counter6(six, "Ip6OutNoRoutes") + counter6(six, "Udp6NoPorts")
}

// counter4 reads a table in which a line of names stands before one of numbers.
func counter4(table []byte, protocol, name string) int64 {
	var names []string
	for line := range strings.Lines(string(table)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != protocol {
			continue
		}
		if names == nil {
			names = words
			continue
		}
		for i := range min(len(names), len(words)) {
			if names[i] == name {
				n, _ := strconv.ParseInt(words[i], 10, 64)
				return n
			}
		}
	}
	return 0
}

// counter6 reads a table with a name and a number on each line.
func counter6(table []byte, name string) int64 {
	for line := range bytes.Lines(table) {
		if words := bytes.Fields(line); len(words) == 2 && string(words[0]) == name {
			n, _ := strconv.ParseInt(string(words[1]), 10, 64)
			return n
		}
	}
	return 0
}
