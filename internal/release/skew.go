package release

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
)

// Skew is which releases a client of the API server is to behave as, and to work with. The zero value is this one's.
type Skew struct {
	Emulated, MinCompatible []string
}

// AddFlags binds upstream's flags.
func (s *Skew) AddFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&s.Emulated, "emulated-version", s.Emulated, "release to behave as: only kube=1.36")
	fs.StringSliceVar(&s.MinCompatible, "min-compatibility-version", s.MinCompatible,
		"oldest release of the API server to work with: kube=1.35 or kube=1.36")
}

// Validate names the flag that can't be.
func (s *Skew) Validate() error {
	var errs []error
	for _, version := range s.Emulated {
		if version != "1.36" && version != "kube=1.36" {
			errs = append(errs, fmt.Errorf("--emulated-version %s: only kube=1.36 is there", version))
		}
	}
	for _, version := range s.MinCompatible {
		switch version {
		case "1.35", "kube=1.35", "1.36", "kube=1.36":
		default:
			errs = append(errs, fmt.Errorf("--min-compatibility-version %s: use kube=1.35 or kube=1.36", version))
		}
	}
	return errors.Join(errs...)
}
