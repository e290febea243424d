// Package cli is the command line of etcd: upstream's.
package cli

import (
	"fmt"
	"os"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

// Main runs the program with the process's arguments and signals. It ends the process by itself where something fails.
//
// A member without configured peers gets short election timeouts by default: it becomes leader after a few hundredths
// of a second instead of up to two seconds, most of the time in which a control plane starts.
//
// --restore-snapshot=FILE, which upstream has not, makes the data directory from a snapshot before the member starts.
func Main() int {
	rest, restore, restores := withoutRestore(os.Args[1:])
	if restores {
		if err := restore.Run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	os.Args = append(os.Args[:1:1], rest...)
	if !configured("config-file", "discovery", "discovery-srv", "election-timeout", "heartbeat-interval",
		"initial-advertise-peer-urls", "initial-cluster") {
		_ = os.Setenv("ETCD_HEARTBEAT_INTERVAL", "10") // milliseconds
		_ = os.Setenv("ETCD_ELECTION_TIMEOUT", "50")   // the fewest beats that etcd accepts
	}
	etcdmain.Main(os.Args)
	return 0
}

// configured reports whether the command line or the environment has one of the settings.
func configured(settings ...string) bool {
	for _, setting := range settings {
		if _, ok := os.LookupEnv("ETCD_" + strings.ReplaceAll(strings.ToUpper(setting), "-", "_")); ok {
			return true
		}
		for _, arg := range os.Args[1:] {
			if flag, _, _ := strings.Cut(arg, "="); strings.TrimLeft(flag, "-") == setting {
				return true
			}
		}
	}
	return false
}
