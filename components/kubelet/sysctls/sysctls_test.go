package sysctls

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestRefuse(t *testing.T) {
	for name, test := range map[string]struct {
		allowed []string
		asks    []string
		hostNet bool
		hostIPC bool
		want    string
	}{
		"nothing":      {},
		"safe":         {asks: []string{"kernel.shm_rmid_forced", "net.ipv4.tcp_rmem"}},
		"with slashes": {asks: []string{"kernel/shm_rmid_forced"}},
		"unsafe": {asks: []string{"kernel.msgmax"},
			want: `forbidden sysctl: "kernel.msgmax" not allowlisted`},
		"one of two": {asks: []string{"net.ipv4.tcp_syncookies", "net/core/somaxconn"},
			want: `forbidden sysctl: "net.core.somaxconn" not allowlisted`},
		"allowed":              {allowed: []string{"net.core.somaxconn"}, asks: []string{"net.core.somaxconn"}},
		"allowed by beginning": {allowed: []string{"kernel.msg*"}, asks: []string{"kernel.msgmax"}},
		"the machine's network": {asks: []string{"net.ipv4.tcp_syncookies"}, hostNet: true,
			want: `forbidden sysctl: "net.ipv4.tcp_syncookies" not allowed with host Net enabled`},
		"the machine's queues": {allowed: []string{"kernel.msg*"}, asks: []string{"kernel.msgmax"}, hostIPC: true,
			want: `forbidden sysctl: "kernel.msgmax" not allowed with host IPC enabled`},
		"the other namespace": {asks: []string{"kernel.shm_rmid_forced"}, hostNet: true},
	} {
		t.Run(name, func(t *testing.T) {
			allowed, err := New(test.allowed)
			if err != nil {
				t.Fatal(err)
			}
			pod := &v1.Pod{Spec: v1.PodSpec{HostNetwork: test.hostNet, HostIPC: test.hostIPC,
				SecurityContext: &v1.PodSecurityContext{}}}
			for _, name := range test.asks {
				pod.Spec.SecurityContext.Sysctls = append(pod.Spec.SecurityContext.Sysctls,
					v1.Sysctl{Name: name, Value: "1"})
			}
			if got := allowed.Refuse(pod); got != test.want {
				t.Errorf("refused with %q, want %q", got, test.want)
			}
		})
	}
}

func TestWhatCannotBeAllowed(t *testing.T) {
	for _, name := range []string{"vm.swappiness", "kernel.*", "Net.core.somaxconn", "net..core",
		strings.Repeat("a", 254)} {
		if _, err := New([]string{name}); err == nil {
			t.Errorf("%s is allowed", name)
		}
	}
}
