package handlers

import (
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestBadOptions: what is wrong with the parameters of a request is told by the type that they are of.
func TestBadOptions(t *testing.T) {
	s := serve(t, nil, "configmaps")
	s.must(201, "POST", mapsPath, `{"metadata":{"name":"x"}}`)
	const body = `{"metadata":{"name":"x"}}`
	invalid := func(method, path, body, message string, headers ...string) refusal {
		return refusal{method, path, body, headers, 422, metav1.StatusReasonInvalid, message}
	}
	bad := func(method, path, body, message string) refusal {
		return refusal{method, path, body, nil, 400, metav1.StatusReasonBadRequest, message}
	}
	const all = `: Unsupported value: ["Some"]: supported values: "All"`
	const modes = `fieldValidation: Unsupported value: "Some": supported values: "", "Ignore", "Strict", "Warn"`
	merge := []string{"Content-Type", "application/merge-patch+json"}
	apply := []string{"Content-Type", "application/apply-patch+yaml"}
	long := strings.Repeat("m", 129)
	s.refused(map[string]refusal{
		"dry run of a creation": invalid("POST", mapsPath+"?dryRun=Some", body,
			`CreateOptions.meta.k8s.io "" is invalid: dryRun`+all),
		"dry run of an update": invalid("PUT", mapPath+"?dryRun=Some", body,
			`UpdateOptions.meta.k8s.io "" is invalid: dryRun`+all),
		"dry run of a patch": invalid("PATCH", mapPath+"?dryRun=Some", `{}`,
			`PatchOptions.meta.k8s.io "" is invalid: dryRun`+all, merge...),
		"dry run of a deletion": invalid("DELETE", mapPath+"?dryRun=Some", "",
			`DeleteOptions.meta.k8s.io "" is invalid: dryRun`+all),
		"validation of a creation": invalid("POST", mapsPath+"?fieldValidation=Some", body,
			`CreateOptions.meta.k8s.io "" is invalid: `+modes),
		"validation of an update": invalid("PUT", mapPath+"?fieldValidation=Some", body,
			`UpdateOptions.meta.k8s.io "" is invalid: `+modes),
		"validation of a patch": invalid("PATCH", mapPath+"?fieldValidation=Some", `{}`,
			`PatchOptions.meta.k8s.io "" is invalid: `+modes, merge...),
		"a long manager": invalid("POST", mapsPath+"?fieldManager="+long, body,
			`CreateOptions.meta.k8s.io "" is invalid: fieldManager: Too long: may not be more than 128 bytes`),
		"a manager that can't be printed": invalid("POST", mapsPath+"?fieldManager=a%00b", body,
			`CreateOptions.meta.k8s.io "" is invalid: fieldManager: Invalid value: "a\x00b": invalid character `+
				`U+0000 (at `+
				`position 1)`),
		"force of a merge patch": invalid("PATCH", mapPath+"?force=true", `{}`,
			`PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch`,
			merge...),
		"an apply without a manager": invalid("PATCH", mapPath, `{}`,
			`PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch`,
			apply...),
		"a policy of old and one of new": invalid("DELETE", mapPath,
			`{"orphanDependents":true,"propagationPolicy":"Orphan"}`,
			`DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "Orphan": `+
				`orphanDependents and `+
				`deletionPropagation cannot be both set`),
		"an unknown policy": invalid("DELETE", mapPath+"?propagationPolicy=Odd", "", `DeleteOptions.meta.k8s.io "" is `+
			`invalid: propagationPolicy: Unsupported value: "Odd": supported values: "Foreground", "Background", `+
			`"Orphan", `+
			`"nil"`),
		"a match without a version": invalid("GET", mapsPath+"?resourceVersionMatch=Exact", "",
			`ListOptions.meta.k8s.io `+
				`"" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless `+
				`resourceVersion is `+
				`provided`),
		"an exact match of any": invalid("GET", mapsPath+"?resourceVersionMatch=Exact&resourceVersion=0", "",
			`ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is `+
				`forbidden for resourceVersion "0"`),
		"an unknown match": invalid("GET", mapsPath+"?resourceVersionMatch=Odd&resourceVersion=1", "",
			`ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Unsupported value: "Odd": supported values: `+
				`"Exact", "NotOlderThan", ""`),
		"a match with a token": invalid("GET", mapsPath+"?resourceVersionMatch=Exact&resourceVersion=1&continue=x", "",
			`ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is `+
				`forbidden when `+
				`continue is provided`),
		"initial events of a list": invalid("GET", mapsPath+"?sendInitialEvents=true", "",
			`ListOptions.meta.k8s.io "" is `+
				`invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list`),
		"initial events without a match": invalid("GET",
			mapsPath+"?watch=1&sendInitialEvents=true&resourceVersionMatch=Exact"+
				"&resourceVersion=1", "", `ListOptions.meta.k8s.io "" is invalid: [resourceVersionMatch: Forbidden: `+
				`sendInitialEvents requires setting resourceVersionMatch to NotOlderThan, resourceVersionMatch: `+
				`Unsupported `+
				`value: "Exact": supported values: "NotOlderThan"]`),
		"a limit that is no number": bad("GET", mapsPath+"?limit=x", "",
			`strconv.ParseInt: parsing "x": invalid syntax`),
		"a timeout that is no number": bad("GET", mapsPath+"?watch=1&timeoutSeconds=x", "",
			`strconv.ParseInt: parsing "x": invalid syntax`),
		"a grace period that is no number": bad("DELETE", mapPath+"?gracePeriodSeconds=x", "",
			`strconv.ParseInt: parsing "x": invalid syntax`),
		"a label selector": bad("GET", mapsPath+"?labelSelector=a%3D%3D%3Db", "",
			"unable to parse requirement: found '=', expected: identifier"),
		"a value of a label": bad("GET", mapsPath+"?labelSelector=a%3D-b", "",
			`unable to parse requirement: values[0][a]: `+
				`Invalid value: "-b": a valid label must be an empty string or consist of alphanumeric characters, `+
				`'-', '_' or `+
				`'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or `+
				`'12345', regex `+
				`used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`),
		"a field selector": bad("GET", mapsPath+"?fieldSelector=a", "",
			"invalid selector: 'a'; can't understand 'a'"),
		"a field that can't be selected by": bad("GET", mapsPath+"?fieldSelector=data.k%3Dv", "",
			`"data.k" is not a known field selector: only "metadata.name", "metadata.namespace"`),
		"another name than that of the path": bad("GET",
			"/api/v1/watch/namespaces/a/configmaps/x?fieldSelector=metadata.name%3Dy", "",
			"fieldSelector metadata.name doesn't match requested name"),
		"export": bad("GET", mapPath+"?export=true", "",
			"the export parameter, deprecated since v1.14, is no longer supported"),
	})
}

// TestManagerName: a manager is what the request says, or the program that sends it.
func TestManagerName(t *testing.T) {
	for _, c := range []struct{ agent, given, want string }{
		{"kubectl/v1.36 (linux/amd64)", "", "kubectl"},
		{"kubectl/v1.36", "mine", "mine"},
		{"plain", "", "plain"},
		{"", "", ""},
		{"/x", "", ""},
		{"a\x01b\x7f/1", "", "ab"},
		{strings.Repeat("é", 100), "", strings.Repeat("é", 64)}, // of two bytes each
		{strings.Repeat("x", 127) + "é", "", strings.Repeat("x", 127)},
		{strings.Repeat("x", 200), "", strings.Repeat("x", 128)},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.Header.Set("User-Agent", c.agent)
		if got := managerName(r, c.given); got != c.want {
			t.Errorf("%q, given %q: %q", c.agent, c.given, got)
		}
	}
}

// TestSelectedLists: what selectors choose, by labels and by the fields that the kind and version has for it.
func TestSelectedLists(t *testing.T) {
	s := serve(t, nil, "pods", "events")
	const pods = "/api/v1/namespaces/a/pods"
	for _, body := range []string{
		`{"metadata":{"name":"x","labels":{"app":"web"}},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"i"}]}}`,
		`{"metadata":{"name":"y","labels":{"app":"db"}},"spec":{"nodeName":"n2","containers":[{"name":"c","image":"i"}]}}`,
	} {
		s.must(201, "POST", pods, body)
	}
	for query, want := range map[string]string{
		"": "x y", "labelSelector=app%3Dweb": "x", "labelSelector=app+notin+(web)": "y", "labelSelector=!app": "",
		"fieldSelector=spec.nodeName%3Dn1": "x", "fieldSelector=spec.nodeName!%3Dn1": "y",
		"fieldSelector=metadata.name%3Dy": "y", "fieldSelector=metadata.namespace%3Db": "",
		"labelSelector=app%3Dweb&fieldSelector=spec.nodeName%3Dn2": "", "labelSelector=&fieldSelector=": "x y",
		"fieldSelector=status.phase%3DPending,spec.nodeName%3Dn2": "y", "limit=1": "x",
	} {
		got := names(t, s.must(200, "GET", pods+"?"+query, ""))
		if got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	s.refused(map[string]refusal{
		"a field that a pod has, but not for this": {"GET", pods + "?fieldSelector=spec.hostname%3Dn", "", nil, 400,
			metav1.StatusReasonBadRequest, "field label not supported: spec.hostname"},
		"a field of another version": {"GET", "/apis/events.k8s.io/v1/events?fieldSelector=involvedObject.kind%3DPod",
			"", nil,
			400, metav1.StatusReasonBadRequest, "field label not supported: involvedObject.kind"},
	})
	s.must(200, "GET", "/apis/events.k8s.io/v1/events?fieldSelector=regarding.kind%3DPod", "")
}

// names are those of the items of a list.
func names(t *testing.T, r *reply) string {
	t.Helper()
	var out []string
	items, _ := r.content(t)["items"].([]any)
	for _, item := range items {
		out = append(out, item.(map[string]any)["metadata"].(map[string]any)["name"].(string))
	}
	return strings.Join(out, " ")
}

// TestPages: a list comes in pages that together are the list, and the rest is counted where nothing is selected.
func TestPages(t *testing.T) {
	s := serve(t, nil, "configmaps")
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s.must(201, "POST", mapsPath, `{"metadata":{"name":"`+name+`"}}`)
	}
	first := s.must(200, "GET", mapsPath+"?limit=2", "")
	meta := first.content(t)["metadata"].(map[string]any)
	if names(t, first) != "a b" || meta["remainingItemCount"] != float64(3) {
		t.Errorf("first %s", first.Body)
	}
	s.must(201, "POST", mapsPath, `{"metadata":{"name":"b0"}}`) // which is none of the list that has begun
	second := s.must(200, "GET", mapsPath+"?limit=2&continue="+meta["continue"].(string), "")
	next := second.content(t)["metadata"].(map[string]any)
	if names(t, second) != "c d" || next["resourceVersion"] != meta["resourceVersion"] {
		t.Errorf("second %s", second.Body)
	}
	last := s.must(200, "GET", mapsPath+"?limit=2&continue="+next["continue"].(string), "")
	if end := last.content(t)["metadata"].(map[string]any); names(t, last) != "e" || end["continue"] != nil ||
		end["remainingItemCount"] != nil {
		t.Errorf("last %s", last.Body)
	}
	exact := s.must(200, "GET",
		mapsPath+"?resourceVersionMatch=Exact&resourceVersion="+meta["resourceVersion"].(string), "")
	if names(t, exact) != "a b c d e" {
		t.Errorf("at a version: %s", exact.Body)
	}
	chosen := s.must(200, "GET", mapsPath+"?limit=1&fieldSelector=metadata.namespace%3Da", "")
	if m := chosen.content(t)["metadata"].(map[string]any); m["remainingItemCount"] != nil || m["continue"] == nil {
		t.Errorf("of what is selected: %s", chosen.Body)
	}
	s.refused(map[string]refusal{
		"a token that is none": {"GET", mapsPath + "?continue=x", "", nil, 400, metav1.StatusReasonBadRequest,
			"invalid continue token: continue key is not valid: illegal base64 data at input byte 0"},
		"a version and a token": {"GET", mapsPath + "?resourceVersion=3&continue=" + meta["continue"].(string), "",
			nil, 400,
			metav1.StatusReasonBadRequest, "specifying resource version is not allowed when using continue"},
	})
}
