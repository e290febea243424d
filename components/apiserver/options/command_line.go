package options

import (
	"github.com/spf13/pflag"

	"quintet.dev/quintet/internal/zpages"
)

// commandLine reads the values of flags as upstream has them, which leaves open what was not given.
func commandLine(fs *pflag.FlagSet) func() map[string]string {
	read := zpages.Flags(fs)
	return func() map[string]string {
		out := read()
		if !fs.Changed("storage-backend") {
			out["storage-backend"] = ""
		}
		for name, before := range map[string]string{"emulated-version": "", "min-compatibility-version": "kube="} {
			said := ""
			if fs.Changed(name) {
				said = before + out[name]
			}
			out[name] = "[" + said + "]"
		}
		return out
	}
}
