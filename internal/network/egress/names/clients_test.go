package names

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// envInside says that this process is the one that TestClients has put into
// its own namespaces, where port 53 and /etc/resolv.conf are the server's.
const envInside = "FORKCELL_TEST_NAMES_INSIDE"

// TestClients has the resolvers that are installed here ask a real server: as
// in a cell, through /etc/resolv.conf.
func TestClients(t *testing.T) {
	if os.Getenv(envInside) != "" {
		inside(t)
		return
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "-test.run=^TestClients$", "-test.v")
	cmd.Env = append(os.Environ(), envInside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
		return
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "not installed here") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

func inside(t *testing.T) {
	dir := t.TempDir()
	if err := ownSystem(dir); err != nil {
		t.Fatal(err)
	}
	compile(t, dir)
	table := &Table{first: 1}
	s := &Server{Table: table, IPv6: true, Allowed: func(n string) bool { return strings.HasSuffix(n, ".example.com") }}
	for _, host := range []string{"127.0.0.1", "::1"} {
		pc, err := net.ListenPacket("udp", net.JoinHostPort(host, "53"))
		if host == "::1" && errors.Is(err, unix.EADDRNOTAVAIL) {
			continue // the host has no IPv6
		}
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", net.JoinHostPort(host, "53"))
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = s.ServeUDP(pc) }()
		go func() { _ = s.ServeTCP(l) }()
	}
	for i, c := range clients() {
		t.Run(c.name, func(t *testing.T) {
			if _, err := exec.LookPath(c.needs); err != nil {
				t.Skipf("not installed here: %v", err)
			}
			// A separate name, in letters of both cases.
			good := fmt.Sprintf("Host%d.Example.COM", i)
			v4, v6, err := table.Assign(good)
			if err != nil {
				t.Fatal(err)
			}
			out, err := command(t, dir, c.argv(good))
			if err != nil || !mentions(out, v4, v6) {
				t.Errorf("%s: %v, want %s or %s\n%s", good, err, v4, v6, out)
			}
			out, err = command(t, dir, c.argv("www.example.net"))
			if mentions(out, v4, v6) || err == nil {
				t.Errorf("www.example.net: %v, want a failure\n%s", err, out)
			}
		})
	}
}

func command(t *testing.T, dir string, argv []string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Errorf("%q took too long", argv)
	}
	return out.String(), err
}

// compile makes the Java client, where there is a compiler.
func compile(t *testing.T, dir string) {
	if _, err := exec.LookPath("javac"); err != nil {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, "Look.java"), []byte(javaSource), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := command(t, dir, []string{"javac", "-J-XX:TieredStopAtLevel=1", "Look.java"}); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
}

func mentions(out string, addrs ...netip.Addr) bool {
	for _, a := range addrs {
		if strings.Contains(out, a.String()) || strings.Contains(out, strings.ReplaceAll(a.StringExpanded(), ":0000", ":0")) {
			return true
		}
	}
	return false
}

type client struct {
	name  string
	needs string
	argv  func(host string) []string
}

// javaSource asks both of Java's ways: the system's resolver and its own.
const javaSource = `
import java.net.InetAddress;
import javax.naming.directory.*;
public class Look {
	public static void main(String[] a) throws Exception {
		if (a[0].equals("own")) {
			java.util.Hashtable<String, String> env = new java.util.Hashtable<>();
			env.put("java.naming.factory.initial", "com.sun.jndi.dns.DnsContextFactory");
			System.out.println(new InitialDirContext(env).getAttributes("dns:/" + a[1], new String[] {"A", "AAAA"}));
			return;
		}
		for (InetAddress i : InetAddress.getAllByName(a[1])) System.out.println(i.getHostAddress());
	}
}`

func clients() []client {
	const python = "/usr/bin/python3"
	return []client{
		{name: "glibc getent ahosts", needs: "getent", argv: func(h string) []string { return []string{"getent", "ahosts", h} }},
		{name: "glibc getent hosts", needs: "getent", argv: func(h string) []string { return []string{"getent", "hosts", h} }},
		{name: "glibc with edns0 over tcp", needs: "getent", argv: func(h string) []string {
			return []string{"env", "RES_OPTIONS=edns0 use-vc trust-ad", "getent", "ahosts", h}
		}},
		{name: "python", needs: python, argv: func(h string) []string {
			return []string{python, "-c", "import socket,sys; print(socket.getaddrinfo(sys.argv[1], 443))", h}
		}},
		{name: "node lookup", needs: "node", argv: func(h string) []string {
			return []string{"node", "-e", "require('dns').lookup(process.argv[1],{all:true},(e,a)=>{if(e)throw e;console.log(a)})", h}
		}},
		{name: "node c-ares", needs: "node", argv: func(h string) []string {
			return []string{"node", "-e", "require('dns').resolveAny(process.argv[1],(e,a)=>{if(e)throw e;console.log(a)})", h}
		}},
		{name: "node c-ares AAAA", needs: "node", argv: func(h string) []string {
			return []string{"node", "-e", "require('dns').resolve6(process.argv[1],(e,a)=>{if(e)throw e;console.log(a)})", h}
		}},
		{name: "java", needs: "javac", argv: func(h string) []string {
			return []string{"java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "Look", "system", h}
		}},
		{name: "java jndi", needs: "javac", argv: func(h string) []string {
			return []string{"java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "Look", "own", h}
		}},
		{name: "busybox nslookup", needs: "busybox", argv: func(h string) []string { return []string{"busybox", "nslookup", h, "127.0.0.1"} }},
	}
}

// ownSystem makes this process's namespaces what a cell's are.
func ownSystem(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	for name, text := range map[string]string{
		"resolv.conf":   "nameserver 127.0.0.1\noptions timeout:2 attempts:1\n",
		"hosts":         "127.0.0.1 localhost\n",
		"nsswitch.conf": "hosts: files dns\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
		if err := unix.Mount(file, "/etc/"+name, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("attach %s: %w", name, err)
		}
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}
