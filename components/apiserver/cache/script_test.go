package cache

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	testclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/storage/memory"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// TestScripts runs testdata/*.txt: lines that begin with "> " are commands, those after them the answer. Revisions
// count from the start of the script.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts:", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			before, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			after := runScript(t, string(before))
			if *rewrite {
				if err := os.WriteFile(file, []byte(after), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if after != string(before) {
				t.Errorf("got\n%s", after)
			}
		})
	}
}

type player struct {
	*fixture
	clock    *testclock.FakeClock
	watchers map[string]*Watcher
	tokens   map[string]string
}

func runScript(t *testing.T, text string) string {
	clock := testclock.NewFakeClock(time.Unix(1_000_000_000, 0))
	p := &player{
		fixture: start(t, memory.New(clock), Config{Events: 4, Clock: clock}), clock: clock,
		watchers: map[string]*Watcher{}, tokens: map[string]string{},
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "> "):
			out.WriteString(line)
			verb, args := parseCommand(line[2:])
			for _, answer := range p.do(verb, args) {
				out.WriteString(answer + "\n")
			}
		case strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "":
			out.WriteString(line)
		}
	}
	return out.String()
}

func parseCommand(line string) (string, map[string]string) {
	words := strings.Fields(line)
	args := map[string]string{}
	for _, w := range words[1:] {
		if k, v, ok := strings.Cut(w, ":"); ok {
			args[k] = v
		} else {
			args["object"] = w
		}
	}
	return words[0], args
}

// do runs one command. Objects are written namespace/name; revisions as resource versions.
func (p *player) do(verb string, args map[string]string) []string {
	namespace, name, _ := strings.Cut(args["object"], "/")
	switch verb {
	case "create":
		return []string{at(p.create(namespace, name, args["node"]))}
	case "update":
		return []string{at(p.alter(namespace, name, func(pod *corev1.Pod) {
			if node, ok := args["node"]; ok {
				pod.Spec.NodeName = node
			}
			if app, ok := args["app"]; ok {
				pod.Labels["app"] = app
			}
		}))}
	case "delete":
		return []string{at(p.remove(namespace, name))}
	case "list":
		return p.listed(args)
	case "watch":
		return p.watch(args)
	case "next":
		return p.next(args["object"])
	case "step":
		d, err := time.ParseDuration(args["object"])
		p.must(err)
		p.clock.Step(d)
		return nil
	}
	return []string{"unknown command " + verb}
}

func at(e *Entry) string { return fmt.Sprintf("  @%d", e.Revision) }

func predicate(args map[string]string) Predicate {
	var p Predicate
	if s, ok := args["labels"]; ok {
		p.Label, _ = labels.Parse(s)
	}
	if s, ok := args["fields"]; ok {
		p.Field = fields.ParseSelectorOrDie(s)
	}
	return p
}

func (p *player) listed(args map[string]string) []string {
	o := ListOptions{
		Namespace: args["in"], ResourceVersion: args["rv"], Predicate: predicate(args),
		ResourceVersionMatch: metav1.ResourceVersionMatch(args["match"]), Continue: p.tokens[args["on"]],
	}
	fmt.Sscan(args["limit"], &o.Limit)
	l, err := p.pods.List(p.ctx, o)
	if err != nil {
		return []string{"  " + err.Error()}
	}
	out := fmt.Sprintf("  @%d: %s", l.Revision, names(l))
	if l.Continue != "" {
		p.tokens[args["token"]] = l.Continue
		out += " ..."
	}
	if l.Remaining != nil {
		out += fmt.Sprint(" ", *l.Remaining)
	}
	return []string{out}
}

func (p *player) watch(args map[string]string) []string {
	o := WatchOptions{
		Namespace: args["in"], ResourceVersion: args["rv"], Predicate: predicate(args),
		Bookmarks: args["bookmarks"] != "",
	}
	if s, ok := args["initial"]; ok {
		yes := s == "true"
		o.SendInitialEvents = &yes
	}
	if args["rv"] != "" && args["rv"] != "0" {
		p.list(ListOptions{}) // the cache has reached what the script has done
	}
	w, err := p.pods.Watch(p.ctx, o)
	if err != nil {
		return []string{"  " + err.Error()}
	}
	p.watchers[args["object"]] = w
	p.Cleanup(w.Close)
	return nil
}

// next shows all that a watcher gets until the cache has caught up with the store.
func (p *player) next(name string) []string {
	p.list(ListOptions{})
	var out []string
	for {
		ctx, cancel := context.WithTimeout(p.ctx, time.Second)
		if w := p.watchers[name]; w.initial == nil && len(w.wake) == 0 && !due(w) {
			cancel()
		}
		events, err := p.watchers[name].Next(ctx)
		cancel()
		for _, e := range events {
			out = append(out, "  "+show(e))
		}
		if err != nil {
			if ctx.Err() == nil {
				out = append(out, "  "+err.Error())
			}
			return out
		}
	}
}

// due reports whether the timer of a fake clock has fired.
func due(w *Watcher) bool { return w.timer != nil && len(w.timer.C()) > 0 }

func show(e Event) string {
	pod := e.Entry.Object.(*corev1.Pod)
	s := fmt.Sprintf("%s @%s", e.Type, pod.ResourceVersion)
	if pod.Name != "" {
		s += fmt.Sprintf(" %s/%s", pod.Namespace, pod.Name)
	}
	if pod.Spec.NodeName != "" {
		s += " node:" + pod.Spec.NodeName
	}
	for k, v := range pod.Annotations {
		s += fmt.Sprintf(" %s=%s", k, v)
	}
	return s
}
