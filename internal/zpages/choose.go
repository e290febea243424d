package zpages

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/munnerz/goautoneg"
)

// The forms of a page, and the versions of its object.
const (
	text     = "text/plain"
	jsonForm = "application/json"
	yamlForm = "application/yaml"
	cborForm = "application/cbor"

	group = "config.k8s.io"
	old   = "v1alpha1"
	now   = "v1beta1"
)

func forms(cbor bool) []string {
	out := []string{jsonForm, yamlForm, text}
	if cbor {
		out = append(out, cborForm)
	}
	return out
}

type choice struct{ form, version string }

// choose finds the form that a client accepts. An object must be asked for by its kind.
func choose(accept, kind string, cbor bool) (choice, bool) {
	if strings.TrimSpace(accept) == "" {
		return choice{form: text}, true
	}
	for _, clause := range goautoneg.ParseAccept(accept) {
		if clause.Params["stream"] != "" || clause.Params["sv"] != "" {
			continue
		}
		_, as := clause.Params["as"]
		_, g := clause.Params["g"]
		version, v := clause.Params["v"]
		for _, form := range forms(cbor) {
			main, sub, _ := strings.Cut(form, "/")
			if clause.Type != main && clause.Type != "*" || clause.SubType != sub && clause.SubType != "*" {
				continue
			}
			switch {
			case form == text && !as && !g && !v:
				return choice{form: text}, true
			case form != text && clause.Params["as"] == kind && clause.Params["g"] == group &&
				(version == old || version == now):
				return choice{form, version}, true
			}
		}
	}
	return choice{}, false
}

// Indented tells whether people will read an object.
func Indented(r *http.Request) bool {
	if value := r.URL.Query().Get("pretty"); value != "" {
		yes, err := strconv.ParseBool(value)
		return err == nil && yes
	}
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") ||
		strings.HasPrefix(agent, "Mozilla/5.0")
}
