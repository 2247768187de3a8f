package protocol

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// fill gives every exported field a value, so that one that wire does not know
// is found.
func fill(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "flag"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "number"))
	case reflect.Uint16:
		v.SetUint(uint64(rapid.Uint16().Draw(t, "number")))
	case reflect.Uint32:
		v.SetUint(uint64(rapid.Uint32().Draw(t, "number")))
	case reflect.String:
		v.SetString(string(rapid.SliceOf(rapid.Byte()).Draw(t, "text")))
	case reflect.Slice:
		n := rapid.IntRange(0, 3).Draw(t, "length")
		if n == 0 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(t, v.Index(i))
		}
	case reflect.Uint8:
		v.SetUint(uint64(rapid.Byte().Draw(t, "byte")))
	case reflect.Map:
		v.Set(reflect.ValueOf(rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "map")))
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "there") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(t, v.Field(i))
			}
		}
	default:
		t.Fatalf("no way to fill a %s", v.Type())
	}
}

// Every field arrives as it was sent.
func TestWire(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		for _, m := range []message{&Plan{}, &ParentMounts{}, &Order{}, &Report{}, &PackageCall{}, &PackageEnd{}} {
			fill(t, reflect.ValueOf(m).Elem())
			got := reflect.New(reflect.TypeOf(m).Elem()).Interface().(message)
			if err := decode(encode(m), got); err != nil {
				t.Fatal(err)
			}
			own := cmpopts.IgnoreUnexported(Plan{}, Bind{}, Overlay{})
			if diff := cmp.Diff(m, got, own, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("%T: %s", m, diff)
			}
		}
	})
}

// What is cut off, or goes on behind its end, is no message.
func TestWireRefuses(t *testing.T) {
	t.Parallel()
	whole := encode(&Report{Kind: Failed, Degraded: []string{"a", "b"}, Text: "text", Status: 7})
	for n := range whole {
		if decode(whole[:n], &Report{}) == nil {
			t.Errorf("%d of %d bytes were taken", n, len(whole))
		}
	}
	if decode(append(whole, 0), &Report{}) == nil {
		t.Error("a byte behind the end was taken")
	}
}

// FuzzWire: a report comes from a process that a command may have got hold of.
func FuzzWire(f *testing.F) {
	f.Add(encode(&Report{Kind: Built, Examined: []Finding{{Name: "x", Problem: "y"}}, StepTimes: []StepTime{{Step: "b", Took: 1}}}))
	f.Add(encode(&Report{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again Report
		if decode(b, &r) != nil {
			return
		}
		if err := decode(encode(&r), &again); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, again, cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	})
}
