package controllers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMigration: controllers that a file moves run under the migration's lease here, or in the other manager.
func TestMigration(t *testing.T) {
	const head = "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\n"
	all := []entry{{name: "a-controller"}, {name: "b-controller"}, {name: "c-controller"}}
	for name, c := range map[string]struct {
		file, err  string
		own, moved string
	}{
		"default": {own: "a-controller b-controller c-controller"},
		"file": {file: head + "leaderName: moving\ncontrollerLeaders:\n- {name: a-controller, component: '*'}\n" +
			"- {name: b-controller, component: cloud-controller-manager}\n", own: "c-controller", moved: "a-controller"},
		"by name": {file: head + "leaderName: moving\ncontrollerLeaders:\n" +
			"- {name: c-controller, component: kube-controller-manager}\n", own: "a-controller b-controller",
			moved: "c-controller"},
		"no name":       {file: head, err: "leaderName: Required value"},
		"no component":  {file: head + "leaderName: m\ncontrollerLeaders: [{name: a}]\n", err: "[0].component: Required"},
		"other lock":    {file: head + "leaderName: m\nresourceLock: endpoints\n", err: `resourceLock: "endpoints"`},
		"other kind":    {file: "apiVersion: v1\nkind: Pod\nleaderName: m\n", err: "kind: \"Pod\""},
		"unknown field": {file: head + "leader: m\n", err: "leader"},
	} {
		t.Run(name, func(t *testing.T) {
			config := LeaderMigration{Enabled: true}
			if c.file != "" {
				config.ConfigFile = filepath.Join(t.TempDir(), "migration.yaml")
				if err := os.WriteFile(config.ConfigFile, []byte(c.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			m, err := config.load()
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			own, moved := m.split(all)
			names := func(entries []entry) string {
				var out []string
				for _, e := range entries {
					out = append(out, e.name)
				}
				return strings.Join(out, " ")
			}
			if names(own) != c.own || names(moved) != c.moved {
				t.Errorf("own %q, moved %q", names(own), names(moved))
			}
		})
	}
	if own, moved := (*migration)(nil).split(all); len(own) != 3 || moved != nil {
		t.Errorf("without a migration: %v, %v", own, moved)
	}
}
