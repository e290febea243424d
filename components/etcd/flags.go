package etcd

import "github.com/spf13/pflag"

// RestoreFlag is the only flag that upstream does not have: its etcdutl restores.
const RestoreFlag = "restore-snapshot"

// AddFlags adds those of upstream's flags that an embedded member has
// (https://etcd.io/docs/v3.6/op-guide/configuration/).
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.DataDir, "data-dir", c.DataDir, "Directory of the database and the log.")
	fs.StringVar(&c.ClientURL, "listen-client-urls", c.ClientURL, "URL to serve clients on.")
	fs.StringVar(&c.CertFile, "cert-file", c.CertFile, "Certificate of an https URL.")
	fs.StringVar(&c.KeyFile, "key-file", c.KeyFile, "Key of the certificate.")
	fs.StringVar(&c.TrustedCAFile, "trusted-ca-file", c.TrustedCAFile, "Authority of clients' certificates.")
	fs.BoolVar(&c.ClientCertAuth, "client-cert-auth", c.ClientCertAuth, "Demand a certificate of clients.")
	fs.BoolVar(&c.UnsafeNoFsync, "unsafe-no-fsync", c.UnsafeNoFsync,
		"Don't wait for the disk: a crash of the machine may lose data.")
	fs.StringVar(&c.RestoreSnapshot, RestoreFlag, c.RestoreSnapshot,
		"Snapshot that the directory is made from before the member starts, once; nothing happens if there is no such file.")
	fs.StringVar(&c.LogLevel, "log-level", c.LogLevel, "debug, info, warn, error, panic or fatal.")
}
