package options

import "github.com/spf13/pflag"

func (c *Config) addAdmissionFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&c.EnableAdmission, "enable-admission-plugins", nil,
		"Admission plug-ins to turn on besides the default ones.")
	fs.StringSliceVar(&c.DisableAdmission, "disable-admission-plugins", nil, "Admission plug-ins to turn off.")
	fs.StringSliceVar(&c.OnlyAdmission, "admission-control", nil,
		"All admission plug-ins that are on. Excludes --enable-admission-plugins and --disable-admission-plugins.")
	fs.StringVar(&c.AdmissionFile, "admission-control-config-file", "",
		"AdmissionConfiguration with the configurations of admission plug-ins.")
	c.NotReadySeconds = fs.Int64("default-not-ready-toleration-seconds", 300,
		"How long pods stay on a node that is not ready, unless they say so themselves.")
	c.UnreachableSeconds = fs.Int64("default-unreachable-toleration-seconds", 300,
		"How long pods stay on a node that is unreachable, unless they say so themselves.")
}
