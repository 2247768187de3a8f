package event

import (
	"encoding/binary"
	"reflect"
)

// appendKey appends a value to a key: all of its fields, with what they point
// to. Equal values have equal keys, different ones have different keys. Every
// event is compared, so this is done without JSON, which takes three times as
// long.
func appendKey(key []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return append(key, 1)
		}
		return append(key, 0)
	case reflect.Int, reflect.Int64:
		return binary.AppendVarint(key, v.Int())
	case reflect.Uint64:
		return binary.AppendUvarint(key, v.Uint())
	case reflect.String:
		return append(binary.AppendUvarint(key, uint64(v.Len())), v.String()...)
	case reflect.Slice:
		key = binary.AppendUvarint(key, uint64(v.Len()))
		for i := range v.Len() {
			key = appendKey(key, v.Index(i))
		}
		return key
	case reflect.Pointer:
		if v.IsNil() {
			return append(key, 0)
		}
		return appendKey(append(key, 1), v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			key = appendKey(key, v.Field(i))
		}
		return key
	default:
		panic("event: no key for " + v.Type().String())
	}
}
