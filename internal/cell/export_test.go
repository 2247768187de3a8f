package cell

import "maps"

// ColumnsWithoutEvidence lists what receipt verify does not compare.
func ColumnsWithoutEvidence() map[string]string { return maps.Clone(noEvidence) }
