package bench

import (
	"os"
	"strings"
	"testing"
	"time"
)

// Processes of a name are taken together, whatever their names have in them.
func TestPrograms(t *testing.T) {
	stat := func(name, user, system, pages string) string {
		fields := make([]string, 50)
		for i := range fields {
			fields[i] = "0"
		}
		fields[0], fields[11], fields[12], fields[21] = "S", user, system, pages
		return "7 (" + name + ") " + strings.Join(fields, " ") + "\n"
	}
	got, err := parsePrograms(stat("shim", "100", "50", "256") + stat("a) (b", "1", "0", "0") +
		stat("shim", "50", "0", "256"))
	if err != nil {
		t.Fatal(err)
	}
	if p := got["shim"]; p.cpu != 2*time.Second || p.resident != 512*float64(os.Getpagesize())/(1<<20) {
		t.Errorf("%+v", p)
	}
	if p := got["a) (b"]; p.cpu != 10*time.Millisecond {
		t.Errorf("%+v", got)
	}
	if _, err := parsePrograms("7 (short) S 1\n"); err == nil {
		t.Error("a short line is taken for a process")
	}
}

// What a program took is told as the part of one processor.
func TestIdleMeasures(t *testing.T) {
	before := map[string]program{"kubelet": {cpu: time.Second}}
	after := map[string]program{"kubelet": {cpu: 1300 * time.Millisecond, resident: 30}, "sh": {cpu: time.Second}}
	got := idleMeasures(before, after, 30*time.Second)
	if len(got) != 2 || got[0].Value != 30 || got[1].Value != 1 {
		t.Errorf("%+v", got)
	}
}

// Docker counts in nanoseconds.
func TestTotalCPU(t *testing.T) {
	got, err := totalCPU(strings.NewReader(`{"cpu_stats":{"cpu_usage":{"total_usage":1500000}}}`))
	if err != nil || got != 1500*time.Microsecond {
		t.Errorf("%v, %v", got, err)
	}
}
