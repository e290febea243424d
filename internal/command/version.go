package command

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"quintet.dev/quintet/internal/release"
)

// versionFlag is --version as upstream's programs take it: alone or =raw it prints what the program is and ends it;
// with a version it changes the reported version.
type versionFlag struct{ print, raw bool }

func (v *versionFlag) addTo(fs *pflag.FlagSet) {
	fs.Var(v, "version",
		"Print the version and quit (=raw prints all that is known of it); =vX.Y.Z... sets the version that is reported.")
	fs.Lookup("version").NoOptDefVal = "true"
}

// Set implements pflag.Value.
func (v *versionFlag) Set(text string) error {
	switch {
	case text == "raw":
		v.print, v.raw = true, true
		return nil
	case strings.HasPrefix(text, "v"):
		return release.Report(text)
	}
	print, err := strconv.ParseBool(text)
	v.print, v.raw = print, false
	return err
}

// String implements pflag.Value.
func (v *versionFlag) String() string {
	if v.raw {
		return "raw"
	}
	return strconv.FormatBool(v.print)
}

// Type implements pflag.Value.
func (v *versionFlag) Type() string { return "version" }

func (v *versionFlag) write(w io.Writer) error {
	if v.raw {
		_, err := fmt.Fprintf(w, "%#v\n", release.Get())
		return err
	}
	_, err := fmt.Fprintf(w, "Kubernetes %s\n", release.Get().GitVersion)
	return err
}
