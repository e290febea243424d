package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// realTime are the files of components, or folders, that keep to real time, by why they do. All others use the Clock of
// their Config, so that tests can move it.
var realTime = map[string][]string{
	"how long something took, for metrics and traces": {
		"components/apiserver/server/validation_metrics.go", "components/apiserver/server/metrics.go",
		"components/apiserver/server/access_metrics.go", "components/apiserver/server/chain.go",
		"components/apiserver/server/auth.go", "components/apiserver/authz/feeds.go",
		"components/apiserver/services/metrics.go", "components/apiserver/services/addresses.go",
		"components/apiserver/tracing", "components/apiserver/metrics/store.go", "components/apiserver/latency",
		"components/apiserver/fieldmanager/times.go", "components/apiserver/fairness/turn.go",
		"components/apiserver/tokens/external/metrics.go", "components/apiserver/admission/admission.go",
		"components/kubelet/hooks/hooks.go",
	},
	"deadlines of requests and connections": {
		"components/apiserver/server/write_coalescing.go", "components/apiserver/server/filters.go",
		"components/apiserver/server/shutdown.go", "components/apiserver/handlers/watch.go",
		"components/apiserver/handlers/deadline.go", "components/controllers/tokens.go",
	},
	"headers for caches of HTTP clients":          {"components/apiserver/openapi"},
	"when a request came, as audit.k8s.io has it": {"components/apiserver/audit/audit.go"},
	"another process or engine is waited for": {
		"components/etcd", "components/kubelet/runtime/docker", "components/kubelet/runtime/cri",
		"components/apiserver/storage/etcd",
		"components/controllers/manager.go", "components/apiserver/cache/set.go", "components/apiserver/registry/feed.go",
		"components/scheduler/plugins/volumebinding/commit.go",
		"components/scheduler/plugins/dynamicresources/commit.go",
	},
	"managed fields are merged by a library's hooks": {"components/apiserver/fieldmanager/fieldmanager.go"},
}

// TestComponentsHaveAClock: what a component reads of package time, it reads from its clock.
func TestComponentsHaveAClock(t *testing.T) {
	clockwork := []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"}
	used := map[string]bool{}
	for _, f := range files(t) {
		if component(f.dir) == "" || f.test || strings.HasSuffix(f.dir, "test") || !slices.Contains(f.imports, "time") {
			continue
		}
		allowed := ""
		for _, places := range realTime {
			for _, place := range places {
				if within(f.path, place) {
					allowed = place
				}
			}
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, filepath.Join("..", "..", f.path), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok || !slices.Contains(clockwork, selector.Sel.Name) {
				return true
			}
			if pkg, ok := selector.X.(*ast.Ident); ok && pkg.Name == "time" {
				used[allowed] = true
				if allowed == "" {
					t.Errorf("%s:%d: time.%s is real time: use the Clock of the component's Config", f.path,
						set.Position(n.Pos()).Line, selector.Sel.Name)
				}
			}
			return true
		})
	}
	for why, places := range realTime {
		for _, place := range places {
			if !used[place] {
				t.Errorf("%s uses no real time any more (%s)", place, why)
			}
		}
	}
}
