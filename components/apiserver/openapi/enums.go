package openapi

import (
	"encoding/json"
	"strings"
)

// closure loads definitions as they are to be told; see the function of that name.
func (c *content) closure(names []string) (map[string]definition, error) {
	loaded, err := closure(names)
	if err != nil || !c.form.NoEnums {
		return loaded, err
	}
	for name, d := range loaded {
		for _, text := range []*json.RawMessage{&d.V2, &d.V3} {
			if *text, err = withoutEnums(*text); err != nil {
				return nil, err
			}
		}
		loaded[name] = d
	}
	return loaded, nil
}

// withoutEnums leaves out of the schema of a type of the program which values there are, and what its descriptions say
// of them.
func withoutEnums(text json.RawMessage) (json.RawMessage, error) {
	var schema any
	if err := json.Unmarshal(text, &schema); err != nil {
		return nil, err
	}
	forgetEnums(schema)
	return json.Marshal(schema)
}

// enumsBegin is how a description begins to tell of values: it comes last.
const enumsBegin = "Possible enum values:"

func forgetEnums(node any) {
	switch node := node.(type) {
	case []any:
		for _, item := range node {
			forgetEnums(item)
		}
	case object:
		for key, value := range node {
			switch value := value.(type) {
			case string:
				if before, _, ok := strings.Cut(value, enumsBegin); ok && key == "description" {
					describe(node, strings.TrimSpace(before))
				}
			case []any:
				if key == "enum" { // a list: a field of that name is an object
					delete(node, key)
				} else {
					forgetEnums(value)
				}
			default:
				forgetEnums(value)
			}
		}
	}
}

// describe sets the description of a schema, or takes it away.
func describe(schema object, text string) {
	if text == "" {
		delete(schema, "description")
	} else {
		schema["description"] = text
	}
}
