package options

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// fixed is a flag of upstream's for something that is one way only here. Saying so is fine, as the command lines of
// others do; asking for something else is an error that says why.
type fixed struct {
	kind    string // of its value, as in the help
	allowed []string
	why     string
	value   string
}

func (f *fixed) String() string { return f.value }
func (f *fixed) Type() string   { return f.kind }
func (f *fixed) Set(value string) error {
	if !slices.Contains(f.allowed, value) {
		return fmt.Errorf("not supported: %s", f.why)
	}
	f.value = value
	return nil
}

const (
	noGate     = "the feature gate that it belongs to is off in this release"
	noElection = noGate + " (CoordinatedLeaderElection)"
	noSkew     = "the server is Kubernetes 1.36 and emulates no other"
)

func addFixedFlags(fs *pflag.FlagSet) {
	for name, f := range map[string]*fixed{
		"emulated-version":                            {"strings", []string{"1.36", "kube=1.36"}, noSkew, ""},
		"emulation-forward-compatible":                {"bool", []string{"false"}, noSkew, ""},
		"runtime-config-emulation-forward-compatible": {"bool", []string{"false"}, noSkew, ""},

		"coordinated-leadership-lease-duration": {"duration", []string{"15s"}, noElection, ""},
		"coordinated-leadership-renew-deadline": {"duration", []string{"10s"}, noElection, ""},
		"coordinated-leadership-retry-period":   {"duration", []string{"2s"}, noElection, ""},
	} {
		f.value = f.allowed[0]
		only := slices.DeleteFunc(slices.Clone(f.allowed), func(v string) bool { return v == "" })
		usage := "Not supported: " + f.why + "."
		if len(only) > 0 {
			usage = "Only " + strings.Join(only, " or ") + ": " + f.why + "."
		}
		added := fs.VarPF(f, name, "", usage)
		if f.kind == "bool" {
			added.NoOptDefVal = "true"
		}
	}
}
