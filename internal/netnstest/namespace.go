// Package netnstest lets tests send packets through network namespaces, which need root.
package netnstest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Add makes a network namespace whose loopback is up, and removes it when the test ends. Without root the test is
// skipped.
func Add(t testing.TB, name string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	Command(t, "ip netns add "+name)
	t.Cleanup(func() { Command(t, "ip netns delete "+name) })
	Sysctl(t, name, "net.ipv6.conf.default.accept_dad=0") // no address is tentative for the first second
	IP(t, name, "link set lo up")
}

// Command runs a command line, whose words are separated by spaces.
func Command(t testing.TB, line string) {
	t.Helper()
	CommandWithInput(t, "", line)
}

// CommandWithInput runs a command line on an input.
func CommandWithInput(t testing.TB, input, line string) {
	t.Helper()
	words := strings.Fields(line)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdin = strings.NewReader(input)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out.String())
	}
}

// IP runs the program ip in a namespace; addresses and routes of IPv6 are told by their colons.
func IP(t testing.TB, namespace string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if strings.HasPrefix(line, "route") && strings.Contains(line, ":") {
			line = "-6 " + line
		}
		Command(t, "ip -n "+namespace+" "+line)
	}
}

// Sysctl sets values of a namespace.
func Sysctl(t testing.TB, namespace string, settings ...string) {
	t.Helper()
	Command(t, "ip netns exec "+namespace+" sysctl -qw "+strings.Join(settings, " "))
}

// NFT runs a script of nft in a namespace.
func NFT(t testing.TB, namespace, script string) {
	t.Helper()
	CommandWithInput(t, script, "ip netns exec "+namespace+" nft -f -")
}

// In calls f on a thread of a network namespace, which ends with the call.
func In(name string, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread must not serve other goroutines
		done <- func() error {
			fd, err := unix.Open("/run/netns/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return fmt.Errorf("namespace %s: %w", name, err)
			}
			defer unix.Close(fd)
			if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("namespace %s: %w", name, err)
			}
			return f()
		}()
	}()
	return <-done
}
