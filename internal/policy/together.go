package policy

// explainAll is ExplainRequest for a policy with ceilings: each list decides by itself, and
// all must allow it. It is recorded if one of them only records it.
func (p *Policy) explainAll(q Request) Explanation {
	all := p.sections()
	request := q.Method != "" || q.Path != ""
	want, agreed := Inspection{}, true
	if request {
		want, agreed = p.inspectionOfAll(q)
	}
	var answer Explanation
	for i, s := range all {
		e := s.explain(s.question(q, want))
		if !e.Allowed {
			return e
		}
		if i == 0 || e.Audited && !answer.Audited {
			answer = e
		}
	}
	switch {
	case !agreed:
		return Explanation{Rule: ruleRequest, Reason: "the policy and its ceilings read the content of the request as different protocols"}
	case request && !signedAlike(all, q):
		return Explanation{Rule: ruleRequest, Reason: "the policy and its ceilings sign the request in different ways"}
	}
	return answer
}

// question returns a request as one of several lists has to decide it: without the content
// if only other lists have it read.
func (s section) question(q Request, want Inspection) Request {
	if q.Facts != nil && want.Protocol != TCP {
		if own, _ := s.inspection(q); own.Protocol == TCP {
			q.Facts = nil
		}
	}
	return q
}

// inspectionOfAll returns how much of a request must be read for all lists. It reports
// false if they disagree about the protocol. The lowest bound applies.
func (p *Policy) inspectionOfAll(q Request) (want Inspection, agreed bool) {
	for _, s := range p.sections() {
		own, ok := s.inspection(q)
		switch {
		case !ok:
			return Inspection{}, false
		case own.Protocol == TCP:
		case want.Protocol == TCP:
			want = own
		case want.Protocol != own.Protocol:
			return Inspection{}, false
		default:
			want.MaxBody = min(want.MaxBody, own.MaxBody)
		}
	}
	return want, true
}

// signedAlike reports whether the lists that inspect a request sign it in the same way.
func signedAlike(all []section, q Request) bool {
	var first *Endpoint
	for _, s := range all {
		found, _ := s.covering(q)
		for _, c := range found {
			if first == nil {
				first = c.ep
			}
			if !first.signsLike(c.ep) {
				return false
			}
		}
	}
	return true
}

func (e *Endpoint) signsLike(o *Endpoint) bool {
	return e.Signing == o.Signing && e.SigningService == o.SigningService && e.SigningRegion == o.SigningRegion
}
