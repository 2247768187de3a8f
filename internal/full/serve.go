// Package full wires the parts of the whole program: the daemon, with the libraries
// that only it needs. Ordinary commands must not link them, because their start
// would take longer.
package full

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/app"
	"github.com/forkcell/forkcell/internal/cell"
	"github.com/forkcell/forkcell/internal/server"
)

// SocketName is the name of the daemon's socket in a home.
const SocketName = "api.sock"

// Serve runs the daemon on a home until ctx ends. ready is called with the addresses
// when they can be connected to.
func Serve(ctx context.Context, home string, o api.ServeOptions, stderr io.Writer, ready func([]string) error) (err error) {
	if home == "" {
		if home, err = app.DefaultHome(); err != nil {
			return err
		}
	}
	nobody := cell.Caller{Actor: func() string { return "daemon" }}
	engine, release, err := app.Open(home, app.Create, nobody)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	unlock, err := engine.LockDaemon(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	listeners, names, err := listen(home, o.Listen)
	if err != nil {
		return err
	}
	s := server.New(server.Config{
		Engine:   func(c cell.Caller) server.Engine { return engine.As(c) },
		UserName: userName, Version: app.Version(), AllowSource: o.AllowSource, Logger: logger(o.LogFormat, stderr),
	})
	if err := ready(names); err != nil {
		return err
	}
	return s.Serve(ctx, listeners...)
}

// listen makes the listeners of the addresses.
func listen(home string, addresses []string) (listeners []net.Listener, names []string, err error) {
	if len(addresses) == 0 {
		addresses = []string{"unix:" + home + "/" + SocketName}
	}
	defer func() {
		if err != nil {
			for _, l := range listeners {
				err = errors.Join(err, l.Close())
			}
		}
	}()
	for _, a := range addresses {
		path, isUnix := strings.CutPrefix(a, "unix:")
		if !isUnix {
			return listeners, nil, api.Usagef("use unix:PATH", "--listen %s: TCP needs tokens", a)
		}
		l, err := server.ListenUnix(path)
		if err != nil {
			return listeners, nil, err
		}
		listeners, names = append(listeners, l), append(names, a)
	}
	return listeners, names, nil
}

// userName returns the name of a user, as the command line records it.
func userName(uid int) string {
	name := "unknown"
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		name = u.Username
	}
	return fmt.Sprintf("%s (uid %d)", name, uid)
}

// logger logs requests at the level of FORKCELL_LOG; without it, only problems.
func logger(format string, w io.Writer) *slog.Logger {
	level := slog.LevelWarn
	if text := os.Getenv("FORKCELL_LOG"); text != "" {
		if err := level.UnmarshalText([]byte(text)); err != nil {
			level = slog.LevelInfo
		}
	}
	o := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
