package gosum

// ArchiveWithin is Archive with another limit.
var ArchiveWithin = archiveWithin
