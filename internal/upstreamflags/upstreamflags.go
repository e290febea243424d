// Package upstreamflags takes flags of upstream's programs that have nothing to set in ours: an unchanged command line
// works where it asks for what is so anyway, and is refused, with the reason, where it asks for something else.
package upstreamflags

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Flag is such a flag.
type Flag struct {
	Name string
	// Default is upstream's. It is always taken, as are the values of Same, which mean what is so anyway.
	Default string
	Same    []string
	// Why tells the reason why no other value is taken.
	Why string
	// Ignored takes all values, as upstream does where the flag has no effect; Why tells when that is.
	Ignored bool
}

// Add adds the flags, which help does not list.
func Add(fs *pflag.FlagSet, flags []Flag) {
	for _, f := range flags {
		added := fs.VarPF(&value{flag: f, text: f.Default}, f.Name, "", f.Why)
		added.Hidden = true
		if f.Default == "true" || f.Default == "false" {
			added.NoOptDefVal = "true"
		}
	}
}

// value implements pflag.Value.
type value struct {
	flag Flag
	text string
}

// Type implements pflag.Value.
func (v *value) Type() string { return "string" }

// String implements pflag.Value.
func (v *value) String() string { return v.text }

// Set implements pflag.Value.
func (v *value) Set(text string) error {
	f := v.flag
	if !f.Ignored && text != f.Default && !slices.Contains(f.Same, text) {
		taken := append([]string{f.Default}, f.Same...)
		return fmt.Errorf("%s; only %s is taken", f.Why, "\""+strings.Join(taken, `", "`)+"\"")
	}
	v.text = text
	return nil
}
