// Package web serves the pages on which a person looks at what ran in a cell, and
// decides. They are made on the server by html/template from the types of the API; one
// small script adds live updates and keys, and nothing needs it.
//
// Names, contents, output and reasons on the pages were written by commands that were
// not reviewed. They are text: never markup, never a link, with invisible characters
// shown by their numbers. What comes from a cell as a file is sent for download.
//
// The package knows HTTP, sessions of browsers and the engine's verbs. It knows
// nothing of tokens' secrets, files of the host, processes and databases.
package web
