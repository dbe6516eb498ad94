"""How one slot gets from one template to another: drain, replace, deadline, rollback. Pure."""
