package kernel

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// setting is a sysctl with the values that are right; the first of them is written where another one is found.
type setting struct {
	name  string
	right []string
}

// settings are what forwarding in and out by one interface takes. No ICMP redirect is sent for the shorter way past
// this machine, and packets need not come by the interface that leads back.
func settings(name string, four, six bool) []setting {
	var all []setting
	if four {
		all = append(all,
			setting{"net/ipv4/ip_forward", []string{"1"}}, // the first one: it resets others
			setting{"net/ipv4/fib_multipath_hash_policy", []string{"1"}},
			setting{"net/ipv4/conf/all/send_redirects", []string{"0"}},
			setting{"net/ipv4/conf/" + name + "/send_redirects", []string{"0"}},
			setting{"net/ipv4/conf/all/rp_filter", []string{"2", "0"}},
		)
	}
	if six {
		all = append(all,
			setting{"net/ipv6/conf/all/forwarding", []string{"1"}},
			setting{"net/ipv6/fib_multipath_hash_policy", []string{"1"}},
		)
	}
	return all
}

// strictReversePath finishes the settings: the stricter of two counts, unless the one of all interfaces is loose.
func strictReversePath(name string, read func(string) (string, error)) []setting {
	if value, err := read("net/ipv4/conf/all/rp_filter"); err == nil && value == "2" {
		return nil
	}
	return []setting{{"net/ipv4/conf/" + name + "/rp_filter", []string{"2", "0"}}}
}

const directory = "/proc/sys/"

func readSysctl(name string) (string, error) {
	data, err := os.ReadFile(directory + name)
	return strings.TrimSpace(string(data)), err
}

// configure writes what is not right yet; /proc/sys may be read-only where all is.
func configure(name string, four, six bool) error {
	wanted := settings(name, four, six)
	if four {
		wanted = append(wanted, strictReversePath(name, readSysctl)...)
	}
	var failures []error
	for _, s := range wanted {
		value, err := readSysctl(s.name)
		if err == nil && slices.Contains(s.right, value) {
			continue
		}
		if err := os.WriteFile(directory+s.name, []byte(s.right[0]+"\n"), 0o600); err != nil {
			failures = append(failures, fmt.Errorf("sysctl %s is %q, must be %s: %w", s.name, value, s.right[0], err))
		}
	}
	return errors.Join(failures...)
}
