package score

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"html/template"
	"io"
	"os"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

//go:embed page.js
var pageScript string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// page is what the template is given.
type page struct {
	Title  string
	Style  template.CSS
	Script template.JS
	Score  template.JS // JSON, which can't end its element: encoding/json escapes <, > and &
	Live   string      // where a live page's entries come from; "" for one that is complete
	Policy string      // what the page may load: nothing but what is in it, and its entries
}

// WriteHTML writes the score as a page that needs nothing else: a sequence with a lane per writer, and the graph of
// owners.
func (s *Score) WriteHTML(w io.Writer) error { return s.writePage(w, "Score", "") }

// SaveHTML writes the page into a file.
func (s *Score) SaveHTML(file string) error {
	var b bytes.Buffer
	if err := s.WriteHTML(&b); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

func (s *Score) writePage(w io.Writer, title, live string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	policy := "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
	if live != "" {
		policy += "; connect-src 'self'"
	}
	return pageTemplate.Execute(w, page{Title: title, Style: template.CSS(pageStyle), Script: template.JS(pageScript),
		Score: template.JS(text), Live: live, Policy: policy})
}
