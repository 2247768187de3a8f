package gvisor

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// The parts of a container's specification (OCI runtime, version 1.1) that a guest has.

type container struct {
	Version  string       `json:"ociVersion"`
	Hostname string       `json:"hostname"`
	Root     root         `json:"root"`
	Process  process      `json:"process"`
	Mounts   []guestMount `json:"mounts"`
	Linux    linux        `json:"linux"`
}

// shape returns the digest of all but the name of the guest.
func (c container) shape() (string, error) {
	c.Hostname = ""
	text, err := json.Marshal(c)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

type root struct {
	Path     string `json:"path"`
	ReadOnly bool   `json:"readonly"`
}

type process struct {
	User         user         `json:"user"`
	Args         []string     `json:"args"`
	Env          []string     `json:"env"`
	Cwd          string       `json:"cwd"`
	Capabilities capabilities `json:"capabilities"`
}

type user struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
}

type capabilities struct {
	Bounding    []string `json:"bounding"`
	Effective   []string `json:"effective"`
	Permitted   []string `json:"permitted"`
	Inheritable []string `json:"inheritable"`
	Ambient     []string `json:"ambient"`
}

type guestMount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Source      string   `json:"source"`
	Options     []string `json:"options"`
}

type linux struct {
	Namespaces  []namespace `json:"namespaces,omitempty"`
	UIDMappings []idMapping `json:"uidMappings,omitempty"`
	GIDMappings []idMapping `json:"gidMappings,omitempty"`
}

type namespace struct {
	Type string `json:"type"`
}

type idMapping struct {
	ContainerID int `json:"containerID"`
	HostID      int `json:"hostID"`
	Size        int `json:"size"`
}
