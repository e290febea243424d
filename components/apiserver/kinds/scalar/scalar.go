// Package scalar makes single Go values of what is decoded of JSON.
package scalar

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
)

// Decode sets into, which must be addressable, to what a client has given for it: a string, bool or int64. It returns
// false, and may have set it to anything, for types that these can't be for, and for what isn't a value of the type:
// the decoder of whole objects tells why.
func Decode(into reflect.Value, given any) bool {
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		into = into.Elem()
	}
	if u, ok := into.Addr().Interface().(json.Unmarshaler); ok {
		switch given.(type) {
		case string, int64:
		default:
			return false
		}
		text, err := json.Marshal(given)
		return err == nil && u.UnmarshalJSON(text) == nil
	}
	switch given := given.(type) {
	case string:
		return decodeText(into, given)
	case bool:
		if into.Kind() == reflect.Bool {
			into.SetBool(given)
			return true
		}
	case int64:
		if into.CanInt() && !into.OverflowInt(given) {
			into.SetInt(given)
			return true
		}
	}
	return false
}

func decodeText(into reflect.Value, given string) bool {
	switch {
	case into.Kind() == reflect.String:
		into.SetString(given)
		return true
	case into.Kind() == reflect.Slice && into.Type().Elem().Kind() == reflect.Uint8:
		raw, err := base64.StdEncoding.DecodeString(given)
		if err == nil {
			into.SetBytes(raw)
		}
		return err == nil
	}
	return false
}
