package api

// SSHRequest lets the programs of a run log in to hosts with keys of the operator. The
// keys stay outside of the cell. It holds no secret.
type SSHRequest struct {
	Keys  []SSHKey  `json:"keys"`
	Hosts []SSHHost `json:"hosts"`
	// Config is the configuration of ssh in the cell.
	Config []byte `json:"config,omitempty"`
}

// SSHKey is a key of the operator, in a file or in the operator's agent.
type SSHKey struct {
	Fingerprint string `json:"fingerprint"`
	// File is the absolute path of the private key, Agent that of the agent's socket.
	// One of them is "".
	File  Text `json:"file,omitempty"`
	Agent Text `json:"agent,omitempty"`
}

// SSHHost is a host that a run may log in to.
type SSHHost struct {
	Host string `json:"host"`
	Port uint16 `json:"port"`
	// User is the one to log in as; "" is any.
	User string `json:"user,omitempty"`
	// Keys are those by which the host is known: type and base64.
	Keys []string `json:"keys"`
}
