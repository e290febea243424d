// Package quantities refuses quantities that are legal to parse and absurd to compute with. To compare 1e999999999 with
// anything means to compute a number of a billion digits, and to parse 1e-999999999 already does. Their exponents are
// shortened before anything is parsed, and what then turns out to be a quantity is refused with its path.
package quantities

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// maxExponentDigits is the length of the longest exponent that is computed with. A float64 has three digits.
const maxExponentDigits = 3

// detail is what a client reads about such a quantity.
var detail = fmt.Sprintf("must be a quantity whose exponent has at most %d digits", maxExponentDigits)

// Suspicious reports whether data, in any format of the wire, may hold such a quantity: a digit or a dot, an e, perhaps
// a sign, and more digits than an exponent may have, or text in which such characters may be escaped.
func Suspicious(data []byte) bool {
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c|0x20 == 'e':
			if from, to := exponent(data, i); to-from > maxExponentDigits {
				return true
			}
		case c == '\\':
			if escaped(data[i:]) {
				return true
			}
		}
	}
	return false
}

// escaped reports whether data begins with an escape sequence, of JSON or YAML, of a character that quantities have.
func escaped(data []byte) bool {
	for _, prefix := range []string{`\u00`, `\x`, `\U000000`} {
		if rest, ok := bytes.CutPrefix(data, []byte(prefix)); ok && len(rest) > 1 {
			return rest[0] >= '2' && rest[0] <= '6'
		}
	}
	return false
}

// exponent finds the digits of the exponent that begins with the e at i; to-from is 0 where there is none.
func exponent(data []byte, i int) (from, to int) {
	if i == 0 || !isDigit(data[i-1]) && data[i-1] != '.' {
		return 0, 0
	}
	from = i + 1
	if from < len(data) && (data[from] == '+' || data[from] == '-') {
		from++
	}
	for to = from; to < len(data) && isDigit(data[to]); to++ {
	}
	return from, to
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// Check returns what is wrong with the quantities of the object that decode makes of data. It is called with data in
// which long exponents are shortened, and only if there are any; what it fails of is for the caller's own decoding to
// tell.
func Check(data []byte, decode func(bounded []byte) (any, error)) field.ErrorList {
	if !Suspicious(data) {
		return nil
	}
	bounded, below := bound(data)
	obj, err := decode(bounded)
	if err != nil {
		return nil
	}
	f := finder{below: below}
	f.visit(nil, reflect.ValueOf(obj))
	return f.errs
}

// Unescaped returns JSON or YAML as JSON without escaped characters that quantities have, or data itself if it can't be
// read.
func Unescaped(data []byte) []byte {
	if !bytes.Contains(data, []byte(`\`)) {
		return data
	}
	var content any
	if yaml.Unmarshal(data, &content) != nil {
		return data
	}
	out, err := yaml.Marshal(content)
	if err != nil {
		return data
	}
	if out, err = yaml.YAMLToJSON(out); err != nil {
		return data
	}
	return out
}

// bound copies data with each long exponent replaced by one of as many digits that is much smaller, and larger than any
// that is allowed. below tells whether there was one with a minus.
func bound(data []byte) (bounded []byte, below bool) {
	bounded = bytes.Clone(data)
	for i := range bounded {
		if bounded[i]|0x20 != 'e' {
			continue
		}
		from, to := exponent(bounded, i)
		if to-from <= maxExponentDigits {
			continue
		}
		below = below || bounded[from-1] == '-'
		for at := from; at < to; at++ {
			bounded[at] = '0'
		}
		bounded[to-maxExponentDigits-1] = '2' // 2000
	}
	return bounded, below
}

// finder looks through an object for quantities that long exponents made.
type finder struct {
	below bool
	errs  field.ErrorList
}

var quantity = reflect.TypeFor[resource.Quantity]()

func (f *finder) visit(at *field.Path, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			f.visit(at, v.Elem())
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			f.visit(at.Index(i), v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			f.visit(at.Key(fmt.Sprint(key.Interface())), v.MapIndex(key))
		}
	case reflect.Struct:
		if v.Type() == quantity {
			f.check(at, v.Interface().(resource.Quantity))
			return
		}
		f.visitFields(at, v)
	}
}

func (f *finder) visitFields(at *field.Path, v reflect.Value) {
	for i := range v.NumField() {
		of := v.Type().Field(i)
		if !of.IsExported() {
			continue
		}
		name, _, _ := strings.Cut(of.Tag.Get("json"), ",")
		switch {
		case name == "" || name == "-":
			f.visit(at, v.Field(i))
		case at == nil:
			f.visit(field.NewPath(name), v.Field(i))
		default:
			f.visit(at.Child(name), v.Field(i))
		}
	}
}

// check notes a quantity that is larger than any with a short exponent, or the smallest that there is if a long one
// with a minus may have been rounded up to it.
func (f *finder) check(at *field.Path, q resource.Quantity) {
	d := q.AsDec()
	large := d.UnscaledBig().Sign() != 0 && d.Scale() < -1000
	if large || f.below && (q.Equal(smallest) || q.Equal(smallestNegative)) {
		f.errs = append(f.errs, field.Invalid(at, "", detail))
	}
}

var smallest, smallestNegative = resource.MustParse("1n"), resource.MustParse("-1n")
