package score

import (
	"fmt"
	"slices"
	"strings"
)

// why puts together what the object itself says about a change: conditions that changed, phases, reasons and messages.
func why(object map[string]any, changes []change) string {
	var out []string
	add := func(text string) {
		if text != "" && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	for _, c := range changes {
		switch last := c.path[len(c.path)-1]; {
		case isCondition(c):
			add(condition(object, c.path[2].value))
		case pathOf(c.path) == "metadata.deletionTimestamp" && c.from == nil:
			add("deletion requested; the API does not tell which client did" + awaited(object))
		case pathOf(c.path) == "status.phase":
			add("phase " + short(c.to))
		case pathOf(c.path) == "spec.replicas":
			add(fmt.Sprintf("scaled from %s to %s", short(c.from), short(c.to)))
		case path0(c) == "status" && (last.field == "reason" || last.field == "message"):
			add(short(c.to))
		}
	}
	return strings.Join(out, "; ")
}

func path0(c change) string { return c.path[0].field }

// isCondition tells whether a change is one of a condition, and not only of the time when it was last probed.
func isCondition(c change) bool {
	if len(c.path) < 3 || path0(c) != "status" || c.path[1].field != "conditions" || c.path[2].key != "type" {
		return false
	}
	if len(c.path) == 3 {
		return true
	}
	return slices.Contains([]string{"status", "reason", "message"}, c.path[3].field)
}

// condition prints a condition of an object; one that is gone is "".
func condition(object map[string]any, kind string) string {
	status, _ := object["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	for _, item := range conditions {
		c, _ := item.(map[string]any)
		if c["type"] != kind {
			continue
		}
		text := fmt.Sprintf("%s=%v", kind, c["status"])
		if reason, _ := c["reason"].(string); reason != "" {
			text += " (" + reason + ")"
		}
		if message, _ := c["message"].(string); message != "" {
			text += ": " + message
		}
		return text
	}
	return ""
}

// awaited is what the removal of an object waits for.
func awaited(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	list, _ := metadata["finalizers"].([]any)
	var names []string
	for _, f := range list {
		if name, ok := f.(string); ok {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return ", finalizers " + strings.Join(names, ", ")
}

func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}
