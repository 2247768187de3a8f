package api

// NeedsTag is the key of the tag of a field that does more than its operation: a caller who
// sets it needs these scopes as well.
const NeedsTag = "needs"

// OperatorTag is the key of the tag of a field whose value means that the operator says so.
// The tag's value is one of the words below: what a caller who is not the operator may
// send. Such a caller is a token with bounds or without the scope admin, and a model.
const OperatorTag = "operator"

const (
	// OperatorOnly is a field that only the operator sets.
	OperatorOnly = "only"
	// OperatorAdds is a list of patterns that others only add: none begins with !.
	OperatorAdds = "adds"
	// OperatorRoot is a root that others leave at host.
	OperatorRoot = "root"
	// OperatorMode is a mode that is not breakglass for others.
	OperatorMode = "mode"
	// OperatorOutput is a size that others leave at DefaultOutputLimit or below.
	OperatorOutput = "output"
	// OperatorGrant is a list of what a policy may loosen. A token that was given a policy
	// may send what that policy loosens.
	OperatorGrant = "grant"
	// OperatorControl is a list of patterns of control files. A token may have been given
	// some, which bound it.
	OperatorControl = "control"
	// OperatorSetuid is as OperatorControl, for a token that was given the pattern **.
	OperatorSetuid = "setuid"
	// OperatorTarget is a directory other than the cell's source, for a token that was given
	// any pattern.
	OperatorTarget = "target"
)
