package boot

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestShutdownGrace(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		want time.Duration
	}{
		"none":   {"kind: KubeletConfiguration\n", 0},
		"in all": {"shutdownGracePeriod: 20s\nshutdownGracePeriodCriticalPods: 5s\n", 20 * time.Second},
		"by priority": {"shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 3}, {priority: 9, " +
			"shutdownGracePeriodSeconds: 4}]\n", 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "kubelet.yaml")
			if err := os.WriteFile(file, []byte(test.file), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"--v=2", "--config=" + file}, {"--config", file, "--v=2"}} {
				if got, err := shutdownGrace(args); err != nil || got != test.want {
					t.Errorf("%q: %v, %v, want %v", args, got, err, test.want)
				}
			}
		})
	}
	if got, err := shutdownGrace(nil); got != 0 || err != nil {
		t.Errorf("without a file: %v, %v", got, err)
	}
	if _, err := shutdownGrace([]string{"--config=/no/such/file"}); err == nil {
		t.Error("a file that is not there is no error")
	}
}
