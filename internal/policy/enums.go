package policy

// Protocol is how an endpoint's traffic is read.
type Protocol int

// TCP is not inspected; the others are.
const (
	TCP Protocol = iota
	REST
	Websocket
	GraphQL
	ModelContext
	JSONRPC
	GRPC
)

// Enforcement says what happens to a request that no rule allows.
type Enforcement int

// Enforce denies the request. Audit forwards it and records the denial.
const (
	Enforce Enforcement = iota
	Audit
)

// TLS is whether traffic is encrypted, and whether the proxy decrypts it.
type TLS int

// TLSAuto decrypts where the rules need the request; TLSSkip never does. TLSOff
// is for endpoints with plain HTTP; see Endpoint.plain.
const (
	TLSAuto TLS = iota
	TLSSkip
	TLSOff
)

// Access is a preset of rules.
type Access int

// The presets; Endpoint.Effective returns their rules.
const (
	AccessNone Access = iota
	ReadOnly
	ReadWrite
	Full
)

// Operation is the type of a GraphQL operation.
type Operation int

// OperationAny is "*"; OperationNone is not given.
const (
	OperationNone Operation = iota
	OperationQuery
	OperationMutation
	OperationSubscription
	OperationAny
)

// Signing is how requests are signed with a credential.
type Signing int

// The SigV4 values are AWS's scheme, with the body signed as the service
// requires, always, or never.
const (
	SigningNone Signing = iota
	SigV4
	SigV4Body
	SigV4NoBody
)

// The names of the values, in their order. An empty name is not written.

func protocolNames() []string {
	return []string{"tcp", "rest", "websocket", "graphql", "mcp", "json-rpc", "grpc"}
}
func landlockNames() []string    { return []string{"", "hard_requirement", "best_effort"} }
func enforcementNames() []string { return []string{"enforce", "audit"} }
func tlsNames() []string         { return []string{"auto", "skip", "off"} }
func accessNames() []string      { return []string{"", "read-only", "read-write", "full"} }
func operationNames() []string   { return []string{"", "query", "mutation", "subscription", "*"} }
func signingNames() []string     { return []string{"", "sigv4", "sigv4:body", "sigv4:no_body"} }

func (v Protocol) String() string    { return protocolNames()[v] }
func (v Landlock) String() string    { return landlockNames()[v] }
func (v Enforcement) String() string { return enforcementNames()[v] }
func (v TLS) String() string         { return tlsNames()[v] }
func (v Access) String() string      { return accessNames()[v] }
func (v Operation) String() string   { return operationNames()[v] }
func (v Signing) String() string     { return signingNames()[v] }
