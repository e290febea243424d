package admissionregistration

import (
	v1 "k8s.io/api/admissionregistration/v1"

	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// WebhookColumns are the columns of configurations of webhooks.
func WebhookColumns() show.Columns {
	return show.Name().
		Of("integer", "Webhooks", "Webhooks indicates the number of webhooks registered in this configuration").
		Age()
}

// PolicyColumns are the columns of policies; what counts their rules, and is told in words.
func PolicyColumns(what, words string) show.Columns {
	return show.Name().
		Of("integer", what, words+" defined in this configuration").
		String("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy").
		Age()
}

// PolicyRow are the cells of a policy.
func PolicyRow(name string, rules int, param *v1.ParamKind, age any) []any {
	kind := show.Unset
	if param != nil {
		kind = param.APIVersion + "/" + param.Kind
	}
	return []any{name, int64(rules), kind, age}
}

// BindingColumns are the columns of bindings.
func BindingColumns() show.Columns {
	return show.Name().
		String("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to").
		String("ParamRef", "ParamRef indicates the param resource which sets the configuration param").
		Age()
}

// BindingRow are the cells of a binding.
func BindingRow(name, policy string, param *v1.ParamRef, age any) []any {
	ref := show.Unset
	if param != nil {
		switch {
		case param.Name != "" && param.Namespace != "":
			ref = param.Namespace + "/" + param.Name
		case param.Name != "":
			ref = "*/" + param.Name
		case param.Selector != nil:
			ref = param.Selector.String()
		}
	}
	return []any{name, policy, ref, age}
}
