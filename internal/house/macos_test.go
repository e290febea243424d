package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestMacOS: the library and the program for clusters in containers compile there. Types are checked from the source,
// as compiling all that they import would take minutes.
func TestMacOS(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	config := packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes |
			packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedModule,
		Context: t.Context(), Dir: root, Env: append(os.Environ(), "GOOS=darwin", "CGO_ENABLED=0"),
		ParseFile: func(set *token.FileSet, name string, source []byte) (*ast.File, error) {
			f, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
			if f != nil && !strings.HasPrefix(name, root+string(filepath.Separator)) {
				dropBodies(f)
			}
			return f, err
		},
	}
	loaded, err := packages.Load(&config, "./cluster", "./cmd/quintet")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	packages.Visit(loaded, nil, func(p *packages.Package) {
		if !strings.HasPrefix(p.PkgPath, module) {
			return
		}
		seen++
		for _, err := range p.Errors {
			t.Errorf("%s: %v", p.PkgPath, err)
		}
	})
	if seen < 50 {
		t.Errorf("only %d packages of the module were checked", seen)
	}
}

// dropBodies takes the bodies of functions away, which others' types don't depend on.
func dropBodies(f *ast.File) {
	for _, d := range f.Decls {
		if function, ok := d.(*ast.FuncDecl); ok {
			function.Body = nil
		}
	}
}
