// Package fixedflag has flags of upstream's for what is one way only here. Saying so is fine, as the command lines of
// others do; asking for something else is an error that says why.
package fixedflag

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Flag is one such flag.
type Flag struct {
	// Kind of its value, as in the help.
	Kind string
	// Allowed are its values; the first is the default.
	Allowed []string
	Why     string
}

// Add adds flags by name.
func Add(fs *pflag.FlagSet, flags map[string]Flag) {
	for name, f := range flags {
		only := slices.DeleteFunc(slices.Clone(f.Allowed), func(v string) bool { return v == "" })
		usage := "Not supported: " + f.Why + "."
		if len(only) > 0 {
			usage = "Only " + strings.Join(only, " or ") + ": " + f.Why + "."
		}
		added := fs.VarPF(&value{Flag: f, text: f.Allowed[0]}, name, "", usage)
		if f.Kind == "bool" {
			added.NoOptDefVal = "true"
		}
	}
}

type value struct {
	Flag
	text string
}

// String implements pflag.Value.
func (v *value) String() string { return v.text }

// Type implements pflag.Value.
func (v *value) Type() string { return v.Kind }

// Set implements pflag.Value.
func (v *value) Set(text string) error {
	if !slices.Contains(v.Allowed, text) {
		return fmt.Errorf("not supported: %s", v.Why)
	}
	v.text = text
	return nil
}
