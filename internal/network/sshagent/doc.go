// Package sshagent is an ssh agent for programs that are not trusted. It signs with
// keys of the operator, and only to log in to hosts that the operator listed.
//
// A program proves which host it talks to by session-bind@openssh.com: the host's key
// has signed the id of the session. The agent then signs a request to log in
// (SSH_MSG_USERAUTH_REQUEST) of that session, and nothing else: no other data, nothing
// for a connection that was forwarded. It answers no other request than to list keys
// and to sign.
//
// The package must not know cells, policies, or where its sockets come from.
package sshagent
