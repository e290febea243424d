package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// metaphors are words that the field has other words for. Comments, texts and documents do without them.
var metaphors = regexp.MustCompile(`(?i)\b(nobody|somebody|someone|anybody|everybody|whoever|whom|anew|players?|patience|` +
	`judg(e|es|ed)|vouch\w*|doors?|waves?|horizon|desks?|ledger|promised|road|in the words of|speaks (as|for|to))\b`)

// The tree speaks the language of Kubernetes: comments, texts for users and documents have no words of our own for what
// has a name.
func TestWords(t *testing.T) {
	root := filepath.Join("..", "..")
	for _, f := range files(t) {
		if f.generated || f.dir == "internal/house" {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, filepath.Join(root, f.path), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		refuse := func(pos token.Pos, text string) {
			if word := metaphors.FindString(text); word != "" {
				t.Errorf("%s:%d: %q is not a word of the field", f.path, set.Position(pos).Line, word)
			}
		}
		for _, group := range parsed.Comments {
			for _, comment := range group.List {
				refuse(comment.Pos(), comment.Text)
			}
		}
		if strings.HasSuffix(f.path, "_test.go") {
			continue // whose texts are data, such as the names of users
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				refuse(literal.Pos(), literal.Value)
			}
			return true
		})
	}
	for _, name := range documents(t, root) {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(content), "\n") {
			if word := metaphors.FindString(line); word != "" {
				t.Errorf("%s:%d: %q is not a word of the field", name, i+1, word)
			}
		}
	}
}
