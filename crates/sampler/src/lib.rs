//! Which samples fill this plan, in which layout?
