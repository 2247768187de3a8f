package remote

import (
	"reflect"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestNoOptionIsDropped: an option of run and start that a daemon does not get is
// refused. One that was ignored could be a limit.
func TestNoOptionIsDropped(t *testing.T) {
	t.Parallel()
	elsewhere := map[string]string{ // by field: who sets it, and why it is not sent
		"WatchDisk":               "a session, which the daemon starts itself",
		"Offline":                 "a race and the check of an agent, which the daemon makes itself",
		"Control":                 "a session",
		"Grants.ConfigFile":       "the command line; the daemon has a configuration of its own",
		"Network.CredentialsFile": "the command line; the daemon has a file of its own",
		"Network.Placeholders":    "a session",
		"Network.Logins":          "a session",
		"Network.Unrestricted":    "a session",
		"Network.SSH":             "a session",
	}
	none, err := new(Engine).settings(t.Context(), api.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range eachOption(t) {
		got, err := new(Engine).settings(t.Context(), o)
		switch dropped := err == nil && reflect.DeepEqual(got, none); {
		case dropped && elsewhere[name] == "":
			t.Errorf("the option %s is neither sent nor refused", name)
		case !dropped && elsewhere[name] != "":
			t.Errorf("the option %s is sent or refused, and listed as one that is not", name)
		}
		delete(elsewhere, name)
	}
	for name := range elsewhere {
		t.Errorf("there is no option %s", name)
	}
}

// eachOption returns options with one field set each, by the name of the field.
func eachOption(t *testing.T) map[string]api.RunOptions {
	t.Helper()
	all := map[string]api.RunOptions{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[api.RunOptions]()) {
		parts := []reflect.StructField{{}}
		if f.Type.Kind() == reflect.Struct {
			parts = reflect.VisibleFields(f.Type)
		}
		for _, part := range parts {
			var o api.RunOptions
			name, field := f.Name, reflect.ValueOf(&o).Elem().FieldByIndex(f.Index)
			if part.Name != "" {
				name, field = f.Name+"."+part.Name, field.FieldByIndex(part.Index)
			}
			fill(t, name, field)
			all[name] = o
		}
	}
	return all
}

// fill gives a field a value that a caller could.
func fill(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(1_000_000_000)
	case reflect.String:
		v.SetString("some")
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		if v.Index(0).Kind() == reflect.String {
			v.Index(0).SetString("NAME")
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("name"), reflect.ValueOf("value"))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	default:
		t.Fatalf("the test cannot set %s, a %s", name, v.Kind())
	}
}

// TestPinsOfAPreset: what a preset brings is left at home, and a pin that the caller
// gives is refused, also if it stands in the place of one of the preset's.
func TestPinsOfAPreset(t *testing.T) {
	t.Parallel()
	const own, given = "packages.example.com:443=10.0.0.1", "packages.example.com:443=127.0.0.1"
	preset := &api.PolicyFile{Name: "preset dev", Resolve: api.Texts{own}}
	for _, c := range []struct {
		name    string
		policy  *api.PolicyFile
		pins    api.Texts
		refused bool
	}{
		{"the preset's", preset, api.Texts{own}, false},
		{"one more", preset, api.Texts{given, own}, true},
		{"another one", preset, api.Texts{given}, true},
		{"without a policy", nil, api.Texts{given}, true},
	} {
		err := ofHost(api.RunOptions{Policy: c.policy, Network: api.NetworkRequest{Resolve: c.pins}})
		if (err != nil) != c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
