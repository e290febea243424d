package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// leastLinks is a number of relative links below which the documents were not found, or not understood.
const leastLinks = 50

var (
	// markdownLink is an inline link: its text, which may be wrapped, and its target.
	markdownLink = regexp.MustCompile(`\[([^\[\]]*)\]\(([^()\s]+)\)`)
	// goName is the name of a declaration, or of a method, field or interface's method after its type's.
	goName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)
)

// link is an inline link of a Markdown document to a file of this tree.
type link struct {
	text   string
	target string // slash-separated, relative to the document's folder, without fragment
}

// TestLinksOfDocuments: relative links lead to what exists, and a link to a Go file whose text is a name, as in
// [Table](kinds/table.go) or [Cache.Get](cache/read.go), leads to the file that declares it.
func TestLinksOfDocuments(t *testing.T) {
	root := filepath.Join("..", "..")
	declared := map[string]map[string]bool{} // by file
	count := 0
	for _, document := range documents(t, root) {
		content, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range links(string(content)) {
			count++
			file := filepath.Join(filepath.Dir(document), filepath.FromSlash(l.target))
			info, err := os.Stat(file)
			if err != nil {
				t.Errorf("%s: the link [%s](%s) leads nowhere: %v", document, l.text, l.target, err)
				continue
			}
			name, ok := l.name()
			if !ok || info.IsDir() {
				continue
			}
			if declared[file] == nil {
				if declared[file], err = declarations(file); err != nil {
					t.Fatal(err)
				}
			}
			if !declared[file][name] {
				t.Errorf("%s: %s declares no %s", document, l.target, name)
			}
		}
	}
	if count < leastLinks {
		t.Errorf("found only %d relative links: are these the documents?", count)
	}
}

// TestLinksAreUnderstood: the checks of links see what they are about.
func TestLinksAreUnderstood(t *testing.T) {
	got := links("[a\nb](x.go#L1) [`T.M`](y/y.go), [far](https://example.org/z.go) [here](#here) ![p](p.svg)\n" +
		"```go\n[no](no.go)\n```\n[e](e.md)\n")
	want := []link{{"a b", "x.go"}, {"T.M", "y/y.go"}, {"p", "p.svg"}, {"e", "e.md"}}
	if len(got) != len(want) {
		t.Fatalf("links are %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("link %d is %v, want %v", i, got[i], want[i])
		}
	}
	for text, is := range map[string]bool{"T.M": true, "newT": true, "y.go": false, "y/y.go": false, "two words": false} {
		if _, ok := (link{text, "y.go"}).name(); ok != is {
			t.Errorf("[%s](y.go) names a declaration: %t, want %t", text, ok, is)
		}
	}
	file := filepath.Join(t.TempDir(), "y.go")
	source := "package y\n\ntype T[K any] struct{ F, G int }\n\ntype I interface{ N() }\n\nfunc (t *T[K]) M() {}\n\n" +
		"func f() {}\n\nvar v, w = 1, 2\n"
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	names, err := declarations(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"T", "T.F", "T.G", "I", "I.N", "M", "T.M", "f", "v", "w"} {
		if !names[name] {
			t.Errorf("%s is not found among %v", name, names)
		}
	}
	for _, name := range []string{"t", "F", "K", "I.M", "y"} {
		if names[name] {
			t.Errorf("%s is no declaration", name)
		}
	}
}

// documents returns the Markdown files of the root, of docs and of components.
func documents(t *testing.T, root string) []string {
	t.Helper()
	out, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"docs", "components"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(name string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && strings.HasSuffix(name, ".md") {
				out = append(out, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// links returns the relative links of a document, but for those in fenced code blocks and those within the document.
func links(content string) []link {
	var prose strings.Builder
	fenced := false
	for line := range strings.Lines(content) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if !fenced {
			prose.WriteString(line)
		}
	}
	var out []link
	for _, match := range markdownLink.FindAllStringSubmatch(prose.String(), -1) {
		target, err := url.Parse(match[2])
		if err != nil || target.Scheme != "" || target.Host != "" || target.Path == "" {
			continue
		}
		text := strings.Join(strings.Fields(match[1]), " ")
		out = append(out, link{text: strings.Trim(text, "`"), target: target.Path})
	}
	return out
}

// name returns what a link to a Go file says is declared there; its text may also be a file's name, or prose.
func (l link) name() (string, bool) {
	return l.text, strings.HasSuffix(l.target, ".go") && !strings.HasSuffix(l.text, ".go") && goName.MatchString(l.text)
}

// declarations returns the names that a Go file declares: of types, functions, variables and constants as they are, of
// methods as they are and after their type's, of fields and of methods of interfaces after their type's.
func declarations(file string) (map[string]bool, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, decl := range parsed.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			names[d.Name.Name] = true
			if d.Recv != nil && len(d.Recv.List) == 1 {
				names[receiver(d.Recv.List[0].Type)+"."+d.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				addSpec(names, spec)
			}
		}
	}
	return names, nil
}

// addSpec adds what a type, variable or constant specification declares.
func addSpec(names map[string]bool, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			names[name.Name] = true
		}
	case *ast.TypeSpec:
		names[s.Name.Name] = true
		var fields *ast.FieldList
		switch of := s.Type.(type) {
		case *ast.StructType:
			fields = of.Fields
		case *ast.InterfaceType:
			fields = of.Methods
		}
		if fields == nil {
			return
		}
		for _, field := range fields.List {
			for _, name := range field.Names {
				names[s.Name.Name+"."+name.Name] = true
			}
		}
	}
}

// receiver is the name of a receiver's type, without pointer and type parameters.
func receiver(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.ParenExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
