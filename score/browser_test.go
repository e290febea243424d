package score

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// browser is a headless Chromium with one page, that is told what to do through pipes
// (https://chromedevtools.github.io/devtools-protocol/).
type browser struct {
	in      io.WriteCloser
	out     *bufio.Reader
	session string
	last    int
}

// opened is a page in a browser that ends with the test, which is skipped where there is no Chromium.
func opened(t *testing.T, url string) *browser {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"} {
		if found, err := exec.LookPath(name); err == nil && program == "" {
			program = found
		}
	}
	if program == "" {
		t.Skip("no Chromium is found: the page is not tested in a browser")
	}
	b := start(t, program)
	var target struct {
		ID string `json:"targetId"`
	}
	b.call(t, "Target.createTarget", map[string]any{"url": url}, &target)
	var attached struct {
		Session string `json:"sessionId"`
	}
	b.call(t, "Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &attached)
	b.session = attached.Session
	return b
}

func start(t *testing.T, program string) *browser {
	t.Helper()
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "--window-size=1400,800")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	t.Cleanup(func() {
		fmt.Fprint(in, `{"id":0,"method":"Browser.close"}`+"\x00")
		late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		in.Close()
		_ = cmd.Wait() // its exit code tells nothing
		out.Close()
	})
	return &browser{in: in, out: bufio.NewReader(out)}
}

// call calls a method and reads its answer.
func (b *browser) call(t *testing.T, method string, params map[string]any, answer any) {
	t.Helper()
	if err := b.try(t, method, params, answer); err != nil {
		t.Fatal(err)
	}
}

// try returns the browser's error. What the browser says of itself is passed over.
func (b *browser) try(t *testing.T, method string, params map[string]any, answer any) error {
	t.Helper()
	b.last++
	text, err := json.Marshal(map[string]any{"id": b.last, "method": method, "params": params, "sessionId": b.session})
	if b.session == "" {
		text, err = json.Marshal(map[string]any{"id": b.last, "method": method, "params": params})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		t.Fatal(err)
	}
	for {
		text, err := b.out.ReadBytes(0)
		if err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		var said struct {
			ID     int             `json:"id"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(text[:len(text)-1], &said); err != nil {
			t.Fatal(err)
		}
		if said.ID != b.last {
			continue
		}
		if said.Error != nil {
			return fmt.Errorf("%s: %s", method, said.Error)
		}
		return json.Unmarshal(said.Result, answer)
	}
}

// evaluated is the answer of Runtime.evaluate.
type evaluated struct {
	Result struct {
		Value any `json:"value"`
	} `json:"result"`
	Exception any `json:"exceptionDetails"`
}

// eval is the value of an expression in the page, as text.
func (b *browser) eval(t *testing.T, expression string) string {
	t.Helper()
	var answer evaluated
	b.call(t, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &answer)
	if answer.Exception != nil {
		t.Fatalf("%s: %v", expression, answer.Exception)
	}
	return fmt.Sprint(answer.Result.Value)
}

// wait waits until an expression is true in the page. The page may be loaded meanwhile, which ends evaluations.
func (b *browser) wait(t *testing.T, expression string) {
	t.Helper()
	look := fmt.Sprintf(`new Promise(done => { const end = Date.now() + 60000; const look = () => {
		let is = false; try { is = %s } catch { }
		if (is || Date.now() > end) done(is); else setTimeout(look, 20) }; look() })`, expression)
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		var answer evaluated
		err := b.try(t, "Runtime.evaluate", map[string]any{"expression": look, "returnByValue": true, "awaitPromise": true},
			&answer)
		if err == nil && answer.Result.Value == true {
			return
		}
	}
	t.Fatalf("%s is not true; the page is\n%s", expression, b.eval(t, "document.body.innerText"))
}

// TestPageInABrowser: many entries are shown, filtered and told of, and their owners are a tree. The page loads
// nothing.
func TestPageInABrowser(t *testing.T) {
	s := of()
	for i := range 5000 {
		e := did(float64(i), "operator", Update, fmt.Sprintf("p%d", i%100), "")
		e.Fields = []Field{{Path: "spec.size", From: "1", To: "</script><b id=injected>"}}
		e.Owners = []Owner{{Kind: "ReplicaSet", Name: "web", UID: "rs", Controller: true}}
		s.Entries = append(s.Entries, e)
	}
	made := did(5001, "kubectl", Create, "web", "")
	made.Object.Kind, made.Object.UID = "ReplicaSet", "rs"
	s.Entries = append(s.Entries, made)
	file := filepath.Join(t.TempDir(), "score.html")
	if err := s.SaveHTML(file); err != nil {
		t.Fatal(err)
	}
	b := opened(t, "file://"+file)
	b.wait(t, `document.readyState === "complete" && document.querySelectorAll(".row").length > 0`)
	set := func(id, value string) string {
		return fmt.Sprintf(
			`(e => { e.value = %q; e.dispatchEvent(new Event("change")); return e.value })(document.getElementById(%q))`,
			value,
			id,
		)
	}
	for _, c := range []struct{ do, look, want string }{
		{"", `document.getElementById("shown").textContent`, "5001 of 5001 entries"},
		{"", `document.querySelectorAll(".row").length < 100`, "true"},
		{"", `[...document.querySelectorAll(".lane")].map(e => e.textContent).join()`, "kubectl,operator"},
		{`document.querySelector(".row").click()`, `document.querySelector("#detail .fields").innerText.trim()`,
			"spec.size\t1 → </script><b id=injected>"},
		{"", `document.getElementById("injected") === null`, "true"},
		{set("kind", "ReplicaSet"), `document.getElementById("shown").textContent`, "1 of 5001 entries"},
		{set("kind", "") + ";" + set("writer", "operator"), `document.getElementById("shown").textContent`,
			"5000 of 5001 entries"},
		{set("writer", "") + `; document.getElementById("show-owners").click()`,
			`document.querySelector("#owners > ul > li > .object").textContent`, "ReplicaSet n/web"},
		{"", `document.querySelectorAll("#owners > ul > li > ul > li").length`, "100"},
		{`document.querySelector("#owners li li .object").click()`, `document.getElementById("shown").textContent`,
			"50 of 5001 entries"},
		{"", `performance.getEntriesByType("resource").length`, "0"},
	} {
		if c.do != "" {
			b.eval(t, c.do)
		}
		if got := b.eval(t, c.look); got != c.want {
			t.Errorf("%s; %s: %q, want %q", c.do, c.look, got, c.want)
		}
	}
}

// TestLivePageInABrowser: entries are shown as they come.
func TestLivePageInABrowser(t *testing.T) {
	r, watch := recording(t, newServer(), Options{})
	b := opened(t, serving(t, r).URL())
	watch <- line("ADDED", podText("first", "2", 2, 0, ""))
	b.wait(t, `document.querySelector(".row .text").textContent === "create Pod n/first"`)
	watch <- line("MODIFIED", podText("first", "2", 3, 0, `,"spec":{"x":1}`))
	b.wait(t, `document.querySelectorAll(".row").length === 2`)
	r.Stop()
	b.wait(t, `document.title.endsWith("(ended)")`)
}
