package podspec

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestWindowsUsers(t *testing.T) {
	const (
		control = "runAsUserName cannot contain control characters"
		format  = "runAsUserName's Domain doesn't match the NetBios nor the DNS format"
		domain  = "runAsUserName's Domain length must be under 256 characters"
		long    = "runAsUserName's User length must not be longer than 104 characters"
		dots    = "runAsUserName's User cannot contain only periods or spaces"
		chars   = `runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]`
		empty   = "runAsUserName's User cannot be empty"
	)
	for name, want := range map[string][]string{
		"a": nil, `d\a`: nil, "a\u0085": nil, "a\u0009": {control}, "a\u007f": {control},
		`d\`: {empty}, "..": {dots}, "a@": {chars},
		strings.Repeat(".", 105):               {long, dots},
		strings.Repeat("@", 105):               {long, chars},
		strings.Repeat("ä", 53):                {long},
		strings.Repeat("ä", 15) + `\a`:         nil,
		strings.Repeat("ä", 16) + `\a`:         {format},
		strings.Repeat("\u212a", 16) + `\a`:    {format}, // the sign of Kelvin, whose lower case is a letter of a label
		strings.Repeat("d", 256) + `\a@`:       {domain, format, chars},
		strings.Repeat("d.", 127) + `d\a`:      nil,
		strings.Repeat("d.", 127) + "dd" + `\`: {domain, empty},
	} {
		if got := windowsUserProblems(name); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestAppArmorNames(t *testing.T) {
	for name, want := range map[string]int{"": 1, " ": 1, "a": 0, "a ": 1, strings.Repeat("a", 4096): 1,
		" " + strings.Repeat("a", 4095): 2} {
		if errs := validateAppArmor(appArmorOf(corev1.AppArmorProfileTypeLocalhost, &name),
			field.NewPath("p")); len(errs) != want {
			t.Errorf("%d: %v, want %d", len(name), errs, want)
		}
	}
}
