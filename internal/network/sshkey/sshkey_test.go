package sshkey

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// generate makes a key with ssh-keygen and returns its file.
func generate(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("ssh-keygen is not installed")
	}
	file := filepath.Join(t.TempDir(), "key")
	if out, err := exec.CommandContext(t.Context(), "ssh-keygen", append([]string{"-q", "-C", "ada@host", "-f", file}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return file
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestKeys reads keys that ssh-keygen made, in every format, and exchanges signatures
// with another implementation.
func TestKeys(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"ed25519":      {"-t", "ed25519", "-N", ""},
		"rsa":          {"-t", "rsa", "-b", "2048", "-N", ""},
		"rsa, PEM":     {"-t", "rsa", "-b", "3072", "-N", "", "-m", "PEM"},
		"rsa, PKCS8":   {"-t", "rsa", "-b", "2048", "-N", "", "-m", "PKCS8"},
		"p256":         {"-t", "ecdsa", "-b", "256", "-N", ""},
		"p384":         {"-t", "ecdsa", "-b", "384", "-N", ""},
		"p521":         {"-t", "ecdsa", "-b", "521", "-N", ""},
		"p256, PEM":    {"-t", "ecdsa", "-b", "256", "-N", "", "-m", "PEM"},
		"p521, PKCS#8": {"-t", "ecdsa", "-b", "521", "-N", "", "-m", "PKCS8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := generate(t, args...)
			key, err := ParsePrivate(read(t, file))
			if err != nil {
				t.Fatal(err)
			}
			line := string(read(t, file+".pub"))
			if want := strings.Join(strings.Fields(line)[:2], " "); key.Public().Text() != want {
				t.Errorf("%s, want %s", key.Public().Text(), want)
			}
			out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-l", "-f", file).Output()
			if err != nil || !strings.Contains(string(out), " "+key.Public().Fingerprint()+" ") {
				t.Errorf("%v: %s, got %s", err, out, key.Public().Fingerprint())
			}
			exchange(t, key, read(t, file))
		})
	}
}

// exchange has each implementation verify the signature of the other.
func exchange(t *testing.T, key *PrivateKey, text []byte) {
	t.Helper()
	other, err := ssh.ParsePrivateKey(text)
	if err != nil {
		t.Fatal(err)
	}
	data := []byte("some data")
	for _, algorithm := range algorithms(key.Public().Type()) {
		signature, err := key.Sign(data, algorithm)
		if err != nil {
			t.Fatal(err)
		}
		var theirs ssh.Signature
		if err := ssh.Unmarshal(signature, &theirs); err != nil {
			t.Fatal(err)
		}
		if err := other.PublicKey().Verify(data, &theirs); err != nil {
			t.Errorf("%s: %v", algorithm, err)
		}
		made, err := other.(ssh.AlgorithmSigner).SignWithAlgorithm(rand.Reader, data, algorithm)
		if err != nil {
			t.Fatal(err)
		}
		wire := ssh.Marshal(made)
		if err := key.Public().Verify(data, wire); err != nil {
			t.Errorf("%s: %v", algorithm, err)
		}
		if err := key.Public().Verify([]byte("other data"), wire); !errors.Is(err, ErrSignature) {
			t.Errorf("%s: other data: %v", algorithm, err)
		}
		wire[len(wire)-1] ^= 1
		if err := key.Public().Verify(data, wire); !errors.Is(err, ErrSignature) {
			t.Errorf("%s: changed: %v", algorithm, err)
		}
	}
	if key.Public().Type() != RSA {
		if _, err := key.Sign(data, RSASHA256); err == nil {
			t.Error("signed with the algorithm of another type")
		}
		return
	}
	if _, err := key.Sign(data, RSA); err == nil {
		t.Error("signed with SHA-1")
	}
	weak, err := other.(ssh.AlgorithmSigner).SignWithAlgorithm(rand.Reader, data, ssh.KeyAlgoRSA)
	if err != nil {
		t.Fatal(err)
	}
	if err := key.Public().Verify(data, ssh.Marshal(weak)); !errors.Is(err, ErrSignature) {
		t.Errorf("SHA-1: %v", err)
	}
}

func algorithms(kind string) []string {
	if kind == RSA {
		return []string{RSASHA256, RSASHA512}
	}
	return []string{kind}
}

// TestRefusedKeys: keys with a passphrase have an error of their own, and what is no
// key that can be used is refused.
func TestRefusedKeys(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"OpenSSH": {"-t", "ed25519", "-N", "secret"},
		"PEM":     {"-t", "rsa", "-b", "2048", "-N", "secret", "-m", "PEM"},
		"PKCS8":   {"-t", "rsa", "-b", "2048", "-N", "secret", "-m", "PKCS8"},
	} {
		if _, err := ParsePrivate(read(t, generate(t, args...))); !errors.Is(err, ErrPassphrase) {
			t.Errorf("%s: %v", name, err)
		}
	}
	short := generate(t, "-t", "rsa", "-b", "1024", "-N", "")
	if _, err := ParsePrivate(read(t, short)); err == nil || !strings.Contains(err.Error(), "too short") {
		t.Error(err)
	}
	public := read(t, generate(t, "-t", "ed25519", "-N", "")+".pub")
	for _, text := range []string{"", string(public), "-----BEGIN X-----\nAAAA\n-----END X-----\n", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"} {
		if _, err := ParsePrivate([]byte(text)); err == nil {
			t.Errorf("%.40q was read", text)
		}
	}
}

// TestKnownHosts compares the keys of hosts with those that ssh-keygen finds.
func TestKnownHosts(t *testing.T) {
	t.Parallel()
	var keys []string
	for range 4 {
		keys = append(keys, strings.Join(strings.Fields(string(read(t, generate(t, "-t", "ed25519", "-N", "")+".pub")))[:2], " "))
	}
	file := filepath.Join(t.TempDir(), "known")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("hashed.example " + keys[3] + "\n[hashed.example]:2222 " + keys[2] + "\n")
	if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-H", "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text := "# comment\n\na.example,b.example " + keys[0] + " x@y\n" +
		"*.wild.example,!no.wild.example " + keys[1] + "\n[a.example]:2222 " + keys[2] + "\n" +
		"@revoked * " + keys[2] + "\n@cert-authority * " + keys[3] + "\na.example ssh-dss AAAA\nbroken\n" + string(read(t, file))
	k := ParseKnownHosts([]byte(text))
	for host, want := range map[string][]string{
		"a.example": {keys[0]}, "A.Example": {keys[0]}, "b.example": {keys[0]}, "x.wild.example": {keys[1]}, "no.wild.example": nil,
		"wild.example": nil, "hashed.example": {keys[3]}, "c.example": nil, "": nil,
	} {
		var got []string
		for _, key := range k.Keys(host, 22) {
			got = append(got, key.Text())
		}
		if strings.Join(got, ",") != strings.Join(want, ",") {
			t.Errorf("%s: %v, want %v", host, got, want)
		}
	}
	for _, host := range []string{"a.example", "hashed.example"} { // revoked
		if got := k.Keys(host, 2222); got != nil {
			t.Errorf("%s: %v", host, got)
		}
	}
}

// FuzzPublic: a key that is read is the one that was given, and no bytes verify.
func FuzzPublic(f *testing.F) {
	for _, s := range []string{
		"AAAAC3NzaC1lZDI1NTE5AAAAIGJ6vRDjwcyFVbpxV0uYjNmH8nA6xn6Q5r3u8nXrHJ0m",
		"AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEmKSENjQEezOmxkZMy7opKgwFB9nkt5YRrYMjNuG5N87uRgg6CLrbo5wAdT/y6v0mKV0U2w0WZ2YB/++Tpockg=",
	} {
		blob, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(blob, []byte("x"))
	}
	f.Fuzz(func(t *testing.T, blob, signature []byte) {
		k, err := ParsePublic(blob)
		if err != nil {
			return
		}
		if !bytes.Equal(k.Blob(), blob) || TypeOf(blob) != k.Type() {
			t.Errorf("%x became %x", blob, k.Blob())
		}
		if k.Verify([]byte("data that nobody signed"), signature) == nil {
			t.Errorf("%x verifies with %s", signature, k.Text())
		}
	})
}

// FuzzPrivate: a file that is read as a key signs.
func FuzzPrivate(f *testing.F) {
	f.Add([]byte(openSSHMagic + "\x00\x00\x00\x04none\x00\x00\x00\x04none\x00\x00\x00\x00\x00\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := ParsePrivate(pem.EncodeToMemory(&pem.Block{Type: "OPENSSH PRIVATE KEY", Bytes: b}))
		if err != nil {
			return
		}
		algorithm := algorithms(k.Public().Type())[0]
		if signature, err := k.Sign([]byte("data"), algorithm); err != nil || k.Public().Verify([]byte("data"), signature) != nil {
			t.Errorf("%v, %x", err, signature)
		}
	})
}

// FuzzKnownHosts: whatever the file is, it is read, and a host without a name has no
// key by accident.
func FuzzKnownHosts(f *testing.F) {
	f.Add("a.example ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJ6vRDjwcyFVbpxV0uYjNmH8nA6xn6Q5r3u8nXrHJ0m\n", "a.example")
	f.Add("|1|x|y ssh-rsa A\n@revoked *,!b c d", "b")
	f.Fuzz(func(_ *testing.T, text, host string) {
		ParseKnownHosts([]byte(text)).Keys(host, 22)
	})
}
