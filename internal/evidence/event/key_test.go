package event

import (
	"reflect"
	"testing"
)

// leaves fills a value and calls fn for everything in it that is no pointer, slice
// or struct. Types that hold themselves are filled to the given depth.
func leaves(v reflect.Value, depth int, fn func(reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if depth == 0 {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		leaves(v.Elem(), depth-1, fn)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		leaves(v.Index(0), depth, fn)
	case reflect.Struct:
		for i := range v.NumField() {
			leaves(v.Field(i), depth, fn)
		}
	default:
		fn(v)
	}
}

// TestKey checks that every field of a record is part of its key.
func TestKey(t *testing.T) {
	t.Parallel()
	var r record
	var all []reflect.Value
	whole := reflect.ValueOf(&r).Elem()
	leaves(whole, 4, func(v reflect.Value) { all = append(all, v) })
	seen := map[string]bool{string(appendKey(nil, reflect.ValueOf(record{}))): true}
	differs := func(what string) {
		t.Helper()
		key := string(appendKey(nil, whole))
		if seen[key] {
			t.Errorf("%s: the key is that of another record", what)
		}
		seen[key] = true
	}
	differs("filled")
	for i, v := range all {
		set(v, 1)
		differs(v.Type().String())
		if i > 0 {
			// The same value in the field before is another record.
			set(all[i-1], 2)
			differs(v.Type().String())
			set(all[i-1], 0)
		}
		set(v, 0)
	}
	if len(all) < 70 {
		t.Errorf("%d fields of a record were found", len(all))
	}
}

// set gives a field one of several values.
func set(v reflect.Value, n int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString([]string{"", "a", "ab"}[n])
	case reflect.Bool:
		v.SetBool(n > 0)
	case reflect.Uint64:
		v.SetUint(uint64(n))
	default:
		v.SetInt(int64(n))
	}
}

// TestKeyIsUnambiguous checks that text cannot move from one field to the next.
func TestKeyIsUnambiguous(t *testing.T) {
	t.Parallel()
	key := func(host, ip string) string {
		return string(appendKey(nil, reflect.ValueOf(endpoint{Hostname: text(host), IP: text(ip)})))
	}
	if key("a", "bc") == key("ab", "c") || key("", "a") == key("a", "") {
		t.Error("two endpoints have one key")
	}
}
