package plan

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"quintet.dev/quintet/components/kubelet/runtime"
)

var rewrite = flag.Bool("rewrite", false, "write what was planned into the golden files")

// TestScripts plays the files in testdata. A file is blocks of commands, a line "----", what the last command of
// the block printed, and an empty line. Commands:
//
//	pod restart=… grace=… init=… containers=…   describe the pod
//	plan            print the plan; change nothing
//	step            print the plan and apply it
//	tick 10s        let time pass
//	exit ID CODE    a container ends by itself
//	fail ID         a container could not be started
//	lose            the sandbox ends
//	notstarted ID   the startup probe did not pass
//	unhealthy ID PROBE [SECONDS]
//	image NAME      change a container's image
//	delete SECONDS  stop the pod with this grace
//	busy on|off     a start is under way
//	stopping ID DURATION  a stop is under way, to end then
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { play(t, file) })
	}
}

func play(t *testing.T, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := newSim()
	var written strings.Builder
	for _, block := range strings.Split(strings.TrimSpace(string(data)), "\n\n") {
		commands, want, _ := strings.Cut(block, "----\n")
		got := ""
		for _, line := range strings.Split(strings.TrimSpace(commands), "\n") {
			if strings.HasPrefix(line, "#") {
				continue
			}
			if got, err = s.command(strings.Fields(line)); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		if strings.TrimSpace(got) != strings.TrimSpace(want) && !*rewrite {
			t.Errorf("%s\ngot:\n%s\nwant:\n%s", commands, got, want)
		}
		fmt.Fprintf(&written, "%s\n----\n%s\n", strings.TrimSpace(commands), got)
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(strings.TrimSpace(written.String())+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *sim) command(words []string) (string, error) {
	switch words[0] {
	case "pod":
		return "", s.describe(words[1:])
	case "plan":
		return s.print(s.plan()), nil
	case "step":
		p := s.plan()
		printed := s.print(p)
		s.apply(p)
		return printed, nil
	case "tick":
		d, err := time.ParseDuration(words[1])
		s.in.Now = s.in.Now.Add(d)
		return "", err
	case "delete":
		seconds, err := strconv.Atoi(words[1])
		since := s.in.Now
		if s.in.Stop != nil {
			since = s.in.Stop.Since
		}
		s.in.Stop = &Stop{Since: since, Grace: time.Duration(seconds) * time.Second}
		return "", err
	case "busy":
		s.in.Busy = words[1] == "on"
		return "", nil
	}
	return s.happen(words)
}

// happen are commands that change what is observed.
func (s *sim) happen(words []string) (string, error) {
	switch words[0] {
	case "exit":
		code, err := strconv.Atoi(words[2])
		s.exit(words[1], code)
		return "", err
	case "fail":
		for i := range s.in.Observed.Containers {
			if c := &s.in.Observed.Containers[i]; c.ID == words[1] {
				c.State, c.StartErr, c.ExitCode, c.Finished = runtime.Exited, "no such file", 127, s.in.Now
			}
		}
	case "lose":
		s.in.Observed.Sandboxes[0].State = runtime.Exited
	case "notstarted":
		delete(s.in.Started, words[1])
	case "unhealthy":
		u := Unhealthy{Probe: words[2]}
		if len(words) > 3 {
			seconds, err := strconv.ParseInt(words[3], 10, 64)
			if err != nil {
				return "", err
			}
			u.Grace = &seconds
		}
		s.in.Unhealthy[words[1]] = u
	case "image":
		for _, c := range Containers(s.in.Pod) {
			if c.Name == words[1] {
				c.Image = words[1] + ":other"
			}
		}
	case "stopping":
		d, err := time.ParseDuration(words[2])
		s.in.Stopping[words[1]] = s.in.Now.Add(d)
		return "", err
	default:
		return "", fmt.Errorf("unknown command %q", words[0])
	}
	return "", nil
}
