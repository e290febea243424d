package admissionregistration

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// plain compiles expressions that know no variables of a policy. It is made on first use, has no state and may be used
// from several goroutines.
var plain = sync.OnceValue(func() plugincel.Compiler {
	return plugincel.NewCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
})

// composing compiles expressions that know the variables which the same compiler has seen.
func composing() (*plugincel.CompositedCompiler, error) {
	return plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
}

// expressions checks those of one object. The sets are the expressions that the stored object has: these may use what
// is too new for others, so that no update of the server makes an object invalid.
type expressions struct {
	compiler                                                plugincel.Compiler
	params                                                  bool // the object names a kind of parameters
	conditions, validations, messages, annotations, patches sets.Set[string]
}

func (e expressions) variables() plugincel.OptionalVariableDeclarations {
	return plugincel.OptionalVariableDeclarations{HasParams: e.params, HasAuthorizer: true}
}

func typeIn(stored sets.Set[string], expression string) environment.Type {
	if stored.Has(expression) {
		return environment.StoredExpressions
	}
	return environment.NewExpressions
}

// compile checks an expression; shown is how a fault shows it.
func compile(c plugincel.Compiler, e plugincel.ExpressionAccessor, vars plugincel.OptionalVariableDeclarations,
	mode environment.Type, shown string, at *field.Path) field.ErrorList {
	return celErrors(c.CompileCELExpression(e, vars, mode).Error, shown, at)
}

func celErrors(err *apiservercel.Error, shown string, at *field.Path) field.ErrorList {
	if err == nil {
		return nil
	}
	switch err.Type {
	case apiservercel.ErrorTypeRequired:
		return field.ErrorList{field.Required(at, err.Detail)}
	case apiservercel.ErrorTypeInvalid:
		return field.ErrorList{field.Invalid(at, shown, err.Detail)}
	default:
		return field.ErrorList{field.InternalError(at, err)}
	}
}

// maxConditions bounds the match conditions of a webhook or policy.
const maxConditions = 64

func (e expressions) validateConditions(list []v1.MatchCondition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(list) > maxConditions {
		errs = append(errs, field.TooMany(path, len(list), maxConditions))
	}
	names := sets.New[string]()
	for i, c := range list {
		at := path.Index(i)
		if text := strings.TrimSpace(c.Expression); text == "" {
			errs = append(errs, field.Required(at.Child("expression"), ""))
		} else {
			errs = append(errs, compile(plain(), &matchconditions.MatchCondition{Expression: text}, e.variables(),
				typeIn(e.conditions, text), text, at.Child("expression"))...)
		}
		if c.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
			continue
		}
		errs = append(errs, checks.Text(c.Name, at.Child("name"), utilvalidation.IsQualifiedName)...)
		if names.Has(c.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		}
		names.Insert(c.Name)
	}
	return errs
}

// validateVariables checks the variables of a policy and makes them known to the expressions that follow.
func (e expressions) validateVariables(list []v1.Variable, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, v := range list {
		at := path.Index(i)
		switch {
		case strings.TrimSpace(v.Name) == "":
			errs = append(errs, field.Required(at.Child("name"), "name is not specified"))
		case !isIdentifier(v.Name):
			errs = append(errs, field.Invalid(at.Child("name"), v.Name, "must be a valid CEL identifier"))
		}
		if strings.TrimSpace(v.Expression) == "" {
			errs = append(errs, field.Required(at.Child("expression"), "expression is not specified"))
			continue
		}
		compiler, ok := e.compiler.(*plugincel.CompositedCompiler)
		if !ok {
			errs = append(errs, field.InternalError(at, fmt.Errorf("variable composition is not allowed")))
			continue
		}
		result := compiler.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression},
			e.variables(), typeIn(e.validations, v.Expression))
		errs = append(errs, celErrors(result.Error, v.Expression, at.Child("expression"))...)
	}
	return errs
}

var identifier = regexp.MustCompile("^[_a-zA-Z][_a-zA-Z0-9]*$")

// isIdentifier reports whether a name can be one of CEL
// (https://github.com/google/cel-spec/blob/master/doc/langdef.md#syntax).
func isIdentifier(name string) bool {
	switch name {
	case "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
		"let",
		"loop", "package", "namespace", "return", "var", "void", "while":
		return false
	}
	return identifier.MatchString(name)
}
